"""Fixtures: small random encoders, small corpora, and kits of methods on them."""

import resource
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)
from torch import nn
from transformers import (
    BertConfig,
    BertForMaskedLM,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForMaskedLM,
)

from harness.encoders.backbone import Encoder
from harness.evaluation import suites
from harness.plugin import registry
from harness.plugin.kit import Kit
from harness.plugin.method import Method
from harness.plugin.registry import Plugin
from harness.plugin.resolution import resolve

torch.set_num_threads(1)

WORDS = """
the a old young small large red green quiet loud cat dog bird horse farmer baker child teacher
river house street garden sees likes finds paints feeds follows near under behind before slowly
quickly today often
""".split()  # noqa: SIM905
KitFor = Callable[..., Kit]


class Calls:
    """Records the arguments and the results of the calls of a module."""

    def __init__(self, module: nn.Module) -> None:
        self.given: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        self.results: list[Any] = []
        forward = module.forward

        def remember(*args: Any, **kwargs: Any) -> Any:
            self.given.append((args, kwargs))
            self.results.append(forward(*args, **kwargs))
            return self.results[-1]

        module.forward = remember  # not a hook: a module may call its own forward

    def keyword(self, call: int, name: str) -> Any:
        """A keyword argument of the call with this number; None when it was not given."""
        return self.given[call][1].get(name)


@pytest.fixture
def watch() -> Callable[[nn.Module], Calls]:
    """watch(module): record its calls from now on."""
    return Calls


class Alike(Kit):
    """A kit of a method that trains on views that are the same, so that formulas are compared."""

    def build(self) -> Method[Any]:
        """The method."""
        method = super().build()
        for module in method.modules():
            if isinstance(module, Encoder):
                module.checks_views = False
        return method


@pytest.fixture
def equal_views() -> None:
    """Views of a sentence may be the same in the methods of `kit_for`."""


FULL = "File too large"
"""The system's sentence in the block of `full_disk`"""
FullDisk = Callable[..., AbstractContextManager[None]]


@pytest.fixture
def full_disk() -> FullDisk:
    """full_disk(room): in the block, this process can write files of so many bytes alone."""

    @contextmanager
    def full(room: int = 1000) -> Iterator[None]:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return full


def forget(*modules: ModuleType) -> None:
    """Empty what functions of these modules remember, as in a new process."""
    for module in modules:
        for value in vars(module).values():
            if hasattr(value, "cache_clear"):
                value.cache_clear()


def hub_client(monkeypatch: pytest.MonkeyPatch, **settings: object) -> None:
    """Let the Hub's client, which is imported already, have settings of its environment."""
    for name, value in settings.items():
        monkeypatch.setattr(f"huggingface_hub.constants.{name}", value)


@pytest.fixture(scope="module", autouse=True)
def data_read_anew() -> None:
    """Data are read once per process; those of a file's tests may come from another mirror."""
    forget(suites)


@pytest.fixture(scope="session")
def tiny_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random BERT of two layers, masked-LM head, word tokenizer with special pieces 0 to 4."""
    folder = tmp_path_factory.mktemp("tiny-encoder")
    names = ("[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]")
    sizes = _sizes(_save_tokenizer(folder, names, order=(1, 3, 0, 2, 4)))
    torch.manual_seed(0)
    config = BertConfig(pad_token_id=0, max_position_embeddings=40, **sizes)
    BertForMaskedLM(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_roberta(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same encoder as a RoBERTa: <s> is 0, <pad> is 1, positions start at 2."""
    folder = tmp_path_factory.mktemp("tiny-roberta")
    names = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
    vocabulary = _save_tokenizer(folder, names, order=range(5))
    _save_roberta(folder, vocabulary, seed=1, positions=42, type_vocab_size=1)
    return folder


@pytest.fixture(scope="session")
def byte_roberta(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A RoBERTa with a tokenizer of RoBERTa's kind.

    Pieces are single bytes, the space before a word is one of them, and the mask swallows the space
    before it.
    """
    folder = tmp_path_factory.mktemp("byte-roberta")
    specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    pieces = [*specials, *pre_tokenizers.ByteLevel.alphabet()]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    backend = Tokenizer(models.BPE(vocabulary, [], unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    ends = ("</s>", 2), ("<s>", 0)
    backend.post_processor = processors.RobertaProcessing(*ends, add_prefix_space=False)
    PreTrainedTokenizerFast(
        tokenizer_object=backend,
        cls_token="<s>", pad_token="<pad>", sep_token="</s>", unk_token="<unk>",
        mask_token=AddedToken("<mask>", lstrip=True),
    ).save_pretrained(folder)  # fmt: skip
    _save_roberta(folder, len(vocabulary), seed=2, positions=200)
    return folder


def _save_roberta(folder: Path, vocabulary: int, seed: int, positions: int, **more: int) -> None:
    """Write a random RoBERTa: <s> is 0, <pad> is 1, </s> is 2."""
    torch.manual_seed(seed)
    special = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
    sizes = {**_sizes(vocabulary), "max_position_embeddings": positions}
    RobertaForMaskedLM(RobertaConfig(**special, **sizes, **more)).save_pretrained(folder)


def _sizes(vocabulary: int) -> dict[str, Any]:
    return {
        "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
        "intermediate_size": 48, "vocab_size": vocabulary, "initializer_range": 0.2,
    }  # fmt: skip


def _save_tokenizer(folder: Path, names: Sequence[str], order: Sequence[int]) -> int:
    """Write a lower-casing tokenizer of WORDS, and return the number of its pieces.

    names: of the pieces for [CLS], [PAD], [SEP], [UNK] and [MASK]. order: of their ids.
    """
    cls, pad, sep, unk, mask = names
    pieces = [*(names[place] for place in order), *WORDS]
    vocabulary = {word: number for number, word in enumerate(pieces)}
    backend = Tokenizer(models.WordPiece(vocabulary, unk_token=unk))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ends = (sep, vocabulary[sep]), (cls, vocabulary[cls])
    backend.post_processor = processors.BertProcessing(*ends)
    PreTrainedTokenizerFast(
        tokenizer_object=backend, cls_token=cls, pad_token=pad, sep_token=sep, unk_token=unk,
        mask_token=mask,
    ).save_pretrained(folder)  # fmt: skip
    return len(vocabulary)


def _sentences(count: int, seed: int) -> list[str]:
    generator = np.random.default_rng(seed)
    return [" ".join(generator.choice(WORDS, generator.integers(2, 13))) for _ in range(count)]


@pytest.fixture(scope="session")
def sentences(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of 50 sentences of 2 to 12 words, where each word is one piece."""
    path = tmp_path_factory.mktemp("corpora") / "sentences.txt"
    path.write_text("".join(f"{line}\n" for line in _sentences(50, seed=0)))
    return path


@pytest.fixture(scope="session")
def triplets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of 20 triplets."""
    path = tmp_path_factory.mktemp("corpora") / "triplets.csv"
    rows = zip(*(_sentences(20, seed) for seed in (1, 2, 3)), strict=True)
    path.write_text("sent0,sent1,hard_neg\n" + "".join(f"{','.join(row)}\n" for row in rows))
    return path


@pytest.fixture(scope="session")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of 24 labelled pairs, with the three labels in turn."""
    path = tmp_path_factory.mktemp("corpora") / "pairs.parquet"
    columns = {
        "premise": _sentences(24, 4),
        "hypothesis": _sentences(24, 5),
        "label": [0, 1, 2] * 8,
    }
    pq.write_table(pa.table(columns), path)
    return path


@pytest.fixture
def family() -> str:
    """The fixture with the encoder of `kit_for`; tests.families.FAMILIES has others."""
    return "tiny_encoder"


@pytest.fixture
def kit_for(request: pytest.FixtureRequest, family: str, sentences: Path, triplets: Path) -> KitFor:
    """kit_for(method, **configuration): a kit on the encoder of a family and the small corpora.

    It uses float32 unless the configuration says otherwise. `method` is a name or a Plugin.
    """

    encoder = str(request.getfixturevalue(family))
    kind = Alike if {"equal_views", "still"} & {*request.fixturenames} else Kit

    def make(method: str | Plugin, **values: Any) -> Kit:
        plugin = registry.load(method) if isinstance(method, str) else method
        small = {
            "encoder": encoder, "generator": values.get("encoder", encoder), "teacher": encoder,
            "second_teacher": encoder, "sentences": str(sentences), "triplets": str(triplets),
            "precision": "fp32", "batch_size": 8,
        }  # fmt: skip
        fields = plugin.config_type.model_fields
        known = {name: value for name, value in small.items() if name in fields}
        return kind(plugin.declare(resolve(plugin, {**known, **values})), torch.device("cpu"))

    return make
