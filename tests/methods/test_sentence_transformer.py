"""Sentence-transformers folders: vectors equal to the library's own, for all kinds of folders."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling, StaticEmbedding
from torch import nn
from transformers import AutoTokenizer

from harness.data.hub import EMBEDDED, model_folder
from harness.errors import UserError
from harness.evaluation.correlation import first_rows
from harness.evaluation.embedder import Embedder
from harness.evaluation.search import nearest_texts
from harness.evaluation.suites import suite
from harness.plugin import registry
from harness.plugin.kit import Kit
from harness.trials.lookup import model
from harness.trials.store import Store
from harness.trials.trial import Trial, key

pytestmark = pytest.mark.slow  # most of these tests run a model over a suite

KitFor = Callable[..., Kit]
Saved = Callable[..., Path]
TEXTS = [
    "the cat sees the dog",
    "A Red BIRD near the old house",
    "the",
    "",
    "two cats, one dog; no horse!",
    " ".join(["the old farmer paints the green house near the river"] * 12),
]
"""One empty, one longer than any of the encoders"""


@pytest.fixture
def saved(tmp_path: Path) -> Saved:
    """saved(encoder, head, ...): a folder written by SentenceTransformer, with its options."""

    def save(
        encoder: str | Path, *head: nn.Module, max_length: int | None = None, **options: Any
    ) -> Path:
        lower = {"do_lower_case": True} if options.pop("lower", False) else {}
        first = Transformer(str(encoder), **lower)
        if max_length:
            first.max_seq_length = max_length
        folder = tmp_path / "saved"
        SentenceTransformer(modules=[first, *head], device="cpu", **options).save(str(folder))
        return folder

    return save


def embedder(kit_for: KitFor, folder: Path | str) -> Embedder:
    kit = kit_for("sentence_transformer", encoder=str(folder), suite="graded")
    return Embedder(kit.build(), kit)


def check(kit_for: KitFor, folder: Path | str, texts: list[str] = TEXTS) -> np.ndarray:
    """Our vectors are equal to the library's, which are returned."""
    expected: np.ndarray = SentenceTransformer(str(folder), device="cpu").encode(
        texts, batch_size=2
    )
    found = embedder(kit_for, folder)(texts)
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() < 1e-5
    assert np.ptp(expected, axis=0).max() > 1e-2, "they differ from each other"
    return expected


TINY = EMBEDDED / "models" / "tiny-bert"
WIDTH = 128


@pytest.mark.parametrize("pooling", ["cls", "mean", "max", "mean_sqrt_len_tokens", "lasttoken"])
@pytest.mark.parametrize("head", ["plain", "head"])
def test_pooling_and_head_are_those_of_the_folder(
    saved: Saved, kit_for: KitFor, pooling: str, head: str
) -> None:
    modules = (
        [Dense(WIDTH, 24, activation_function=nn.Tanh()), Normalize()] if head == "head" else []
    )
    expected = check(kit_for, saved(TINY, Pooling(WIDTH, pooling_mode=pooling), *modules))
    assert expected.shape[1] == (24 if modules else WIDTH)
    assert np.allclose(np.linalg.norm(expected, axis=1), 1, atol=1e-5) == bool(modules)


def prompt(text: str) -> dict[str, Any]:
    return {"prompts": {"search": text}, "default_prompt_name": "search"}


@pytest.mark.parametrize(
    ("source", "longest", "options"),
    [
        *(("tiny", length, {}) for length in (4, 8, 32)),
        ("tiny_encoder", None, {}),  # without a length its 40 positions end it
        *(("tiny_roberta", length, {}) for length in (12, 40)),  # positions from 2
        *(("tiny", 20, prompt(text)) for text in ("find the bird: ", "find:")),
        # A space between prompt and sentence belongs to the first piece of the sentence.
        *(("byte_roberta", 150, prompt(text)) for text in ("query: ", "query:")),
        ("byte_roberta", 150, {}),
        ("tiny", 20, {"prompts": {"search": "find the bird: "}}),  # which is no default
    ],
)
@pytest.mark.parametrize("include", [True, False])
def test_lengths_and_prompts_are_those_of_the_folder(
    saved: Saved,
    kit_for: KitFor,
    request: pytest.FixtureRequest,
    source: str,
    longest: int | None,
    options: dict[str, Any],
    include: bool,
) -> None:
    """`include_prompt` says whether a prompt is pooled; without one nothing is left out."""
    model = TINY if source == "tiny" else request.getfixturevalue(source)
    pooling = Pooling(WIDTH if source == "tiny" else 32, include_prompt=include)
    folder = saved(model, pooling, max_length=longest, **options)
    assert embedder(kit_for, folder).method.longest == longest or longest is None
    found = check(kit_for, folder)
    plain = SentenceTransformer(str(model), device="cpu").encode(TEXTS[:1])
    differs = np.abs(found[0] - plain[0]).max() > 1e-3
    assert source != "tiny" or longest != 20 or differs == ("default_prompt_name" in options)


def test_lower_case_where_the_folder_says(
    saved: Saved, kit_for: KitFor, byte_roberta: Path
) -> None:
    folder = saved(byte_roberta, Pooling(32), lower=True, max_length=60)
    settings = json.loads((folder / "sentence_bert_config.json").read_text())
    (folder / "sentence_bert_config.json").write_text(
        json.dumps(settings | {"do_lower_case": True})
    )
    shutil.copy(
        byte_roberta / "tokenizer.json", folder
    )  # without the tokenizer's own lower case, the setting alone must do it
    check(kit_for, folder)
    one, two = embedder(kit_for, folder)(["The CAT", "the cat"])
    assert np.array_equal(one, two)


def test_roberta_is_cut_where_its_positions_end(
    saved: Saved, kit_for: KitFor, tiny_roberta: Path
) -> None:
    """The library would read 42 tokens, as many as there are position embeddings, and fail."""
    folder = saved(tiny_roberta, Pooling(32))
    embed = embedder(kit_for, folder)
    assert embed.method.longest == 40
    cut = SentenceTransformer(str(folder), device="cpu")
    cut.max_seq_length = 40
    assert np.abs(embed(TEXTS) - cut.encode(TEXTS)).max() < 1e-5


def test_vectors_are_as_short_as_the_folder_says(saved: Saved, kit_for: KitFor) -> None:
    folder = saved(TINY, Pooling(WIDTH), Normalize(), truncate_dim=16)
    assert check(kit_for, folder).shape[1] == 16


def test_a_plain_encoder_gets_the_librarys_mean_pooling(
    kit_for: KitFor, tiny_encoder: Path
) -> None:
    check(kit_for, tiny_encoder)
    kit = kit_for("pooling", encoder=str(tiny_encoder), pooling="mean")
    mean = Embedder(kit.build(), kit)
    assert np.abs(embedder(kit_for, tiny_encoder)(TEXTS) - mean(TEXTS)).max() < 1e-5


def test_a_folder_is_recognised_and_pooling_overrides_it(
    saved: Saved, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HARNESS_HUB", raising=False)
    folder, store = str(saved(TINY, Pooling(WIDTH), Normalize())), Store(tmp_path / "store")
    own = model(folder, store, pooling=None, method=None)
    plain = model(folder, store, pooling="cls", method=None)
    assert (own.trial.method, own.label) == ("sentence_transformer", folder)
    assert (plain.trial.method, plain.trial.config.pooling) == ("pooling", "cls")
    assert model(str(TINY), store, pooling=None, method=None).trial.method == "pooling"


def test_every_file_of_the_folder_is_in_the_key(
    saved: Saved, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HARNESS_HUB", raising=False)
    options = {"prompts": {"search": "find: "}, "default_prompt_name": "search"}
    folder = saved(TINY, Pooling(WIDTH), Dense(WIDTH, 8), **options)
    values = {"encoder": str(folder), "suite": "graded"}
    keys = {key(Trial("sentence_transformer", values, 0))}
    names = [
        "modules.json", "config_sentence_transformers.json", "sentence_bert_config.json",
        "1_Pooling/config.json", "2_Dense/config.json", "2_Dense/model.safetensors",
        "tokenizer.json", "model.safetensors",
    ]  # fmt: skip
    for name in names:
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content + b"\n")
        keys.add(key(Trial("sentence_transformer", values, 0)))
        (folder / name).write_bytes(content)
    assert len(keys) == 1 + 8


def refused(kit_for: KitFor, folder: Path, *parts: str) -> None:
    with pytest.raises(UserError) as refusal:
        embedder(kit_for, folder)
    assert "\n" not in str(refusal.value)
    for part in (str(folder), *parts):
        assert part in str(refusal.value), str(refusal.value)


def test_foreign_code_is_refused(saved: Saved, kit_for: KitFor) -> None:
    folder = saved(TINY, Pooling(WIDTH))
    modules = json.loads((folder / "modules.json").read_text())
    modules[1]["type"] = "my_pooling.Pooling"
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "my_pooling.py").write_text("raise SystemExit('it runs')")
    refused(kit_for, folder, "my_pooling.Pooling", "not the library's")


def test_foreign_activation_is_refused(saved: Saved, kit_for: KitFor) -> None:
    """The library would take tanh in its place, and only log it."""
    folder = saved(TINY, Pooling(WIDTH), Dense(WIDTH, 8))
    path = folder / "2_Dense" / "config.json"
    path.write_text(
        json.dumps(json.loads(path.read_text()) | {"activation_function": "subprocess.Popen"})
    )
    refused(kit_for, folder, "subprocess.Popen", "not the library's")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("modules.json", "{"),
        ("modules.json", "[]"),
        ("modules.json", '[{"idx": 0}]'),
        ("modules.json", "7"),
        ("1_Pooling/config.json", "{"),
        ("model.safetensors", ""),
        ("2_Dense/model.safetensors", ""),
        ("config_sentence_transformers.json", '{"default_prompt_name": "none"}'),
    ],
)
def test_a_damaged_folder_is_refused(
    saved: Saved, kit_for: KitFor, name: str, content: str
) -> None:
    folder = saved(TINY, Pooling(WIDTH), Dense(WIDTH, 8))
    (folder / name).write_text(content)
    refused(kit_for, folder)


def test_a_model_without_a_transformer_is_refused(kit_for: KitFor, tmp_path: Path) -> None:
    static = StaticEmbedding(AutoTokenizer.from_pretrained(TINY).backend_tokenizer, embedding_dim=8)
    SentenceTransformer(modules=[static], device="cpu").save(str(tmp_path / "static"))
    shutil.copy(TINY / "config.json", tmp_path / "static" / "config.json")
    refused(kit_for, tmp_path / "static", "not a transformer", "StaticEmbedding")


MINILM = "sentence-transformers/all-MiniLM-L6-v2"
CALIBRATION = {
    "distinct": (81.44, 94.85, 97.42, 99.48),
    "position": (65.46, 84.54, 90.72, 94.85),
    "any5": (86.60, 94.85, 98.45, 99.48),
    "pairs": (87.11, 96.91, 99.48, 100.0),
}
"""diffcse.md, section 5: recall@1, 3, 5, 10"""


@pytest.mark.slow
@pytest.mark.usefixtures("hub")
def test_all_minilm_has_the_published_figures() -> None:
    plugin = registry.load("sentence_transformer")
    trial = Trial("sentence_transformer", {"encoder": MINILM}, 0)
    kit = Kit(plugin.declare(trial.config), torch.device("cpu"))
    embed = Embedder(plugin.method(trial.config, kit), kit)
    stsb = suite("sts").load("stsb")
    vectors = embed(stsb.texts)
    found = suite("sts").score("stsb", stsb, vectors)
    assert round(found.metrics["stsb"], 2) == 82.03
    recalls = suite("retrieval").score("retrieval", stsb, vectors)
    for protocol, values in CALIBRATION.items():
        for cutoff, value in zip((1, 3, 5, 10), values, strict=True):
            assert round(recalls.details[f"retrieval/{protocol}/recall@{cutoff}"], 2) == value, (
                protocol,
                cutoff,
            )
    assert [round(value, 2) for value in recalls.metrics.values()] == list(CALIBRATION["distinct"])
    # SentEval's white space makes one of two strings.
    query = "you can do it, too."  # one of DiffCSE's
    rows = first_rows(stsb.texts)
    texts = [stsb.texts[row] for row in rows]
    nearest = nearest_texts(query, embed([query])[0], texts, vectors[rows], 3000)
    assert len(nearest) == 2551 - 1
    assert {"You can use it, too.", "Yes, you can do it."} == {text for text, _ in nearest[:2]}
    sample = stsb.texts[::40]
    library = SentenceTransformer(str(model_folder(MINILM)), device="cpu")
    assert np.abs(library.encode(sample) - embed(sample)).max() < 1e-5
