"""A method that was exported, as a module of sentence-transformers.

An exported folder whose method needs code of this package names `RebuiltMethod` in its modules.json
by `MODULE`. The code is that of the installed package; a folder has weights and configurations, and
no code.
"""

import json
import logging
import shutil
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from huggingface_hub import snapshot_download
from safetensors import SafetensorError
from safetensors.numpy import load_file as load_arrays
from safetensors.torch import load_file
from torch import Tensor, nn

from harness.data.batching import TextBatch, pad
from harness.data.tokens import Template, Tokens
from harness.data.user_modules import names_of_records
from harness.device import device
from harness.encoders.backbone import Encoder
from harness.errors import UserError, explained
from harness.inputs import read_text
from harness.plugin import registry
from harness.plugin.kit import Kit
from harness.plugin.method import Method, sentence_pieces


class EmbeddingKit(Kit):
    """A kit without corpora, generators, and artefacts that only training reads.

    In their places a method gets what looks like them and has no content, so that it can be built
    where only its weights are.
    """

    def artefact(self, name: str) -> Mapping[str, np.ndarray]:
        """Arrays as `Kit.artefact` gives them; of what only training reads, without content."""
        if any(each.name == name and each.embeds for each in self.declared.artefacts):
            return self.needed_artefact(name)
        return defaultdict(lambda: np.zeros((1, 1), np.float32))

    def needed_artefact(self, name: str) -> Mapping[str, np.ndarray]:
        """The arrays of an artefact that embedding needs, made from the corpus if need be."""
        return Kit(self.declared, self.device, self.tokenizer).artefact(name)

    def tokens(self, corpus: str, template: Template | None = None) -> Tokens:
        """A corpus of two items without text."""
        columns, items = 3, 2
        return Tokens(
            [np.zeros(0, np.int32)] * columns,
            [np.zeros(items + 1, np.int64)] * columns,
            np.zeros(items, np.int64),
            self.tokenizer.pad_token_id,
        )

    def generator(self, name: str, *, dropout: bool = True) -> Any:
        """A module in the place of a generator."""
        return nn.Identity()


if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

MODULE = "harness.plugin.rebuilt.RebuiltMethod"
"""The name of the class in modules.json; folders outside have it, so it stays"""
DESCRIPTION, MODEL_WEIGHTS, ENCODER, FURTHER, ARTEFACT_FOLDER = (
    "config.json", "model.safetensors", "encoder", "encoders", "artefacts",
)  # fmt: skip
"""The files and folders of an exported method: what it is, the weights that embedding needs,
configuration and tokenizer of the encoder and, by their number in `models()`, of further ones, and
the arrays that embedding needs"""
_logger = logging.getLogger(__name__)


class RebuiltMethod(nn.Module):
    """Reads texts and embeds them as the method does in the tests of the harness."""

    save_in_root = True

    def __init__(self, method: Method[Any], folder: Path, description: Mapping[str, Any]) -> None:
        """folder: where it lies. description: the content of DESCRIPTION."""
        super().__init__()
        self.method, self.folder, self.description = method, folder, description

    @classmethod
    def load(cls, model_name_or_path: str, **options: Any) -> Self:
        """Build the method of a folder, or of a repository of the Hub.

        The arguments are those with which sentence-transformers loads a module. Raises UserError
        when the method is not installed here, or when the folder is damaged.
        """
        folder = Path(model_name_or_path)
        if not folder.is_dir():
            known = ("revision", "token", "local_files_only")
            chosen = {name: options[name] for name in known if name in options}
            cache = options.get("cache_folder")
            folder = Path(snapshot_download(model_name_or_path, cache_dir=cache, **chosen))
        with explained(f"the exported model {folder} cannot be loaded: "):
            description = described(folder)
            with names_of_records():
                method = _method(folder, description)
        return cls(method, folder, description)

    @property
    def tokenizer(self) -> Any:
        """The tokenizer of the encoder."""
        return self.method.tokenizer

    @property
    def max_seq_length(self) -> int:
        """The most tokens of a text, template included."""
        return self.method.longest

    def get_embedding_dimension(self) -> int:
        """The width of the vectors."""
        return int(self.description["dimension"])

    get_sentence_embedding_dimension = get_embedding_dimension

    def preprocess(
        self, inputs: Sequence[str], prompt: str | None = None, **_: Any
    ) -> dict[str, Tensor]:
        """Texts -> `input_ids` and `attention_mask`, (texts, length); a prompt stands in front."""
        texts = [self.method.test_text(f"{prompt or ''}{text}") for text in inputs]
        template = self.method.evaluation_template
        pieces = sentence_pieces(self.method, template, texts)
        rows = [np.asarray(each, np.int64) for each in pieces]
        ids, mask = pad(rows, template, self.tokenizer.pad_token_id)
        return {"input_ids": ids, "attention_mask": mask}

    tokenize = preprocess

    def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Add `sentence_embedding`, (texts, hidden)."""
        ids, mask = features["input_ids"], features["attention_mask"]
        batch = TextBatch(ids, mask, torch.arange(len(ids), device=ids.device))
        return {**features, "sentence_embedding": self.method.embed(batch)}

    def save(self, output_path: str, **_: Any) -> None:
        """Copy the folder; sentence-transformers writes its own files anew."""
        if Path(output_path).resolve() != self.folder.resolve():
            shutil.copytree(self.folder, output_path, dirs_exist_ok=True)


def is_rebuilt(folder: Path) -> bool:
    """Whether a folder of sentence-transformers is an exported method that needs this package."""
    listed = folder / "modules.json"
    try:
        modules = json.loads(read_text(listed)) if listed.is_file() else []
        return [module["type"] for module in modules] == [MODULE]
    except (ValueError, KeyError, TypeError):
        return False


def rebuilt(folder: Path) -> "SentenceTransformer":
    """The model of sentence-transformers, which needs no trust in foreign code this way."""
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(modules=[RebuiltMethod.load(str(folder))])


def described(folder: Path) -> dict[str, Any]:
    """The facts of the trial of an exported method. Raises UserError when it is none."""
    content = json.loads(read_text(folder / DESCRIPTION))
    facts = content.get("harness") if isinstance(content, dict) else None
    if not isinstance(facts, dict):
        raise UserError(f"{folder} is no exported model: its {DESCRIPTION} names no method")
    return facts


class _RebuildingKit(EmbeddingKit):
    """A kit that reads no weights of pretrained models, and artefacts from a folder."""

    empty = True
    folder = Path()
    """Folder of the exported method"""

    def encoder(self, name: str | None = None, **options: Any) -> Encoder:
        """An encoder by its configuration in the folder, which names no other folder."""
        if name is not None:
            further = self.folder / FURTHER / str(self.declared.models.index(name))
            name = str(further if further.is_dir() else self.folder / ENCODER)
        return super().encoder(name, **options)

    def _check_reads(self, name: str, role: str, *, own_pieces: bool = False) -> None:
        """Do nothing, since it was checked before the export."""

    def needed_artefact(self, name: str) -> Mapping[str, np.ndarray]:
        path = self.folder / ARTEFACT_FOLDER / f"{name}.safetensors"
        found: Mapping[str, np.ndarray] = load_arrays(path)
        return found


def _method(folder: Path, description: Mapping[str, Any]) -> Method[Any]:
    name = description["method"]
    if name not in registry.names():
        raise UserError(
            f"{folder} needs the method {name}, which is not installed here; install the package "
            f"that has it, or work in a folder that has it in methods/{name}"
        )
    plugin = registry.load(str(registry.locate(name)))
    if plugin.source_digest != description["source_digest"]:
        _logger.warning("the code of the method %s is not that of %s", name, folder)
    values = dict(description["configuration"])
    if (folder / ENCODER).is_dir():
        values["encoder"] = str((folder / ENCODER).resolve())
    kit = _RebuildingKit(plugin.declare(plugin.config_type(**values)), device())
    kit.folder = folder
    method: Method[Any] = kit.build()
    try:
        weights = load_file(folder / MODEL_WEIGHTS) if (folder / MODEL_WEIGHTS).is_file() else {}
        for path, part in [*method.named_modules()]:
            has_weights = any(name.startswith(f"{path}.") for name in weights)
            if isinstance(part, Encoder) and not has_weights:
                part.model = nn.Identity()  # embedding does not need it
        # The stored tensors themselves, because an encoder may be in bf16.
        method.load_state_dict(weights, strict=True, assign=True)
    except (SafetensorError, OSError, RuntimeError) as error:
        why = str(error).splitlines()[0]
        raise UserError(f"{folder / MODEL_WEIGHTS} cannot be loaded: {why}") from None
    return method.to(kit.device).eval()
