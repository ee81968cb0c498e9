"""`harness compare`, `retrieve` and `picture`: two models, nearest sentences, pictures."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import Tensor

from harness.data.hub import EMBEDDED
from harness.data.senteval import lines
from harness.evaluation.embedder import Embedder
from harness.plugin import registry
from harness.plugin.kit import Kit
from harness.plugin.resolution import resolve
from harness.trials.store import Store
from tests.cli.conftest import Harness, SentEval, Shown, check_sentence, sets

pytestmark = pytest.mark.slow  # most of these tests run a model over a suite


@pytest.fixture
def trial(shown: Shown, store: Path) -> str:
    """The key of a trial of [CLS] pooling in the store."""
    values = sets(suite="graded", pooling="cls")
    shown("run", "pooling", "--encoder", "tiny-bert", *values, "--store", store)
    [row] = Store(store).read().records()
    return str(row.key)


Compare = Callable[..., dict[str, list[float]]]


@pytest.fixture
def compared(shown: Shown, store: Path) -> Compare:
    """compared(a, b, option, ...): task -> A, B, A - B, low, high, p as they are printed."""

    def call(a: str, b: str, *options: object) -> dict[str, list[float]]:
        number = r"\s+([+-]?\d+\.\d+)"
        line = rf"^\s*([\w-]+){4 * number} to{2 * number}"
        rows = re.findall(line, shown("compare", a, b, *options, "--store", store), re.M)
        assert rows
        return {task: [float(value) for value in values] for task, *values in rows}

    return call


def test_two_models_differ_by_the_difference_of_their_scores(
    compared: Compare, shown: Shown, trial: str, store: Path, senteval: SentEval
) -> None:
    """The average is the last row."""
    senteval()
    for model in ("tiny-bert", trial):
        shown("eval", model, "--suite", "graded", "--store", store)
    rows = [row for row in Store(store).read().records() if row.role == "evaluation"]
    scores = {row.configuration["pooling"]: row.test["graded"] for row in rows}
    [there] = compared(trial[:8], "tiny-bert", "--suite", "graded").values()
    [back] = compared("tiny-bert", trial[:8], "--suite", "graded").values()
    cls, mean = scores["cls"], scores["mean"]
    assert there[:3] == pytest.approx([cls, mean, cls - mean], abs=0.006)
    assert there[3] < there[2] < there[4]
    assert back == [there[1], there[0], -there[2], -there[4], -there[3], there[5]]
    assert 0 < there[5] < 1
    tasks = compared(trial, "tiny-bert")
    assert list(tasks) == ["sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr", "avg"]
    average = tasks.pop("avg")
    values = np.asarray([*tasks.values()])
    assert average[:3] == pytest.approx(values[:, :3].mean(axis=0), abs=0.011)
    low, high = average[3:5]
    assert low < average[2] < high
    assert high - low < np.mean(values[:, 4] - values[:, 3])


def test_mistakes_are_reported_before_a_model_is_loaded(
    harness: Harness, senteval: SentEval, store: Path, tmp_path: Path
) -> None:
    senteval()
    damaged = encoder(tmp_path / "damaged", dict.clear)
    folders = "compared on sts, graded, a table of scored pairs, or a folder"
    for suite in ("transfer-senteval", "retrieval", "geometry"):  # these are no correlations
        answer = harness("compare", damaged, damaged, "--suite", suite, "--store", store)
        check_sentence(answer, f'"{suite}"', folders)
    (tmp_path / "file").touch()
    for output in (tmp_path / "file", tmp_path / "file" / "pictures"):
        answer = harness("picture", damaged, "--output", output, "--store", store)
        check_sentence(answer, output, "cannot be written", "--output")


def encoder(folder: Path, change: Callable[[dict[str, Tensor]], None]) -> Path:
    """tiny-bert with other weights."""
    shutil.copytree(EMBEDDED / "models" / "tiny-bert", folder)
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    return folder


def test_a_constant_embedding_has_no_score(
    harness: Harness, senteval: SentEval, store: Path, tmp_path: Path
) -> None:
    """The last norm of this encoder forgets what it gets."""

    def forget(weights: dict[str, Tensor]) -> None:
        name = max(name for name in weights if name.endswith("output.LayerNorm.weight"))
        weights[name].zero_()
        weights[name.replace("weight", "bias")].fill_(1)

    senteval()
    model = encoder(tmp_path / "constant", forget)
    for words in (
        ["compare", model, model, "--suite", "graded"],
        ["retrieve", model, "a"],
        ["picture", model, "--output", tmp_path / "pictures"],
    ):
        answer = harness(*words, "--store", store)
        most = 5 if words[0] == "compare" else 4  # it embeds with both models
        check_sentence(answer, "the embedding is constant", code=1, steps_at_most=most)


def embed(texts: list[str]) -> np.ndarray:
    """The vectors of the tiny encoder with mean pooling, computed without the command."""
    plugin = registry.load("pooling")
    config = resolve(plugin, {"encoder": "tiny-bert", "pooling": "mean", "suite": "graded"})
    kit = Kit(plugin.declare(config), torch.device("cpu"))
    return Embedder(plugin.method(config, kit), kit)(texts).astype(np.float64)


def nearest(texts: list[str], query: str, count: int) -> list[tuple[str, float]]:
    """The nearest sentences, found by computing every cosine one by one."""
    [one, *vectors] = embed([query, *texts])
    cosines = {
        text: float(one @ other / np.sqrt((one @ one) * (other @ other)))
        for text, other in zip(texts, vectors, strict=True)
        if text.lower() != query.lower()
    }
    return sorted(cosines.items(), key=lambda item: -item[1])[:count]


def test_the_nearest_sentences_are_those_of_all_cosines(
    shown: Shown, senteval: SentEval, store: Path, tmp_path: Path
) -> None:
    """Also of the texts of a file."""
    senteval()
    rows = [line.split("\t") for line in lines("STS/STSBenchmark/sts-test.csv")]
    texts = [row[place] for place in (5, 6) for row in rows]
    queries = ["the pilot checked the probe.", "the river is green", texts[3].upper()]
    words = ["retrieve", "tiny-bert", "--store", store]
    blocks = shown(*words, *queries, "--count", 5).strip().split("\n\n")
    assert blocks[0] == "tiny-bert (mean pooling)"
    for query, block in zip(queries, blocks[1:], strict=True):
        title, *ranked = block.split("\n")
        ranks, cosines, sentences = zip(*(line.split(maxsplit=2) for line in ranked), strict=True)
        expected = nearest(texts, query, 5)
        assert title == query
        assert sentences == tuple(text for text, _ in expected)
        assert ranks == ("1", "2", "3", "4", "5")
        near = pytest.approx([near for _, near in expected], abs=6e-4)
        assert [float(cosine) for cosine in cosines] == near
    assert texts[3] not in blocks[3].split("\n", 1)[1], "the query itself is left out"
    path = tmp_path / "texts.jsonl"
    texts = ["A fish swims.", "The garden is green.", "A key is on the table.", "A fish swims."]
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    out = shown(*words, "a KEY is on the table.", "--texts", path)
    ranked = [line.split(maxsplit=2) for line in out.strip().splitlines()[3:]]
    assert {text for _, _, text in ranked} == set(texts[:2])
    cosines = [float(cosine) for _, cosine, _ in ranked]
    assert cosines == sorted(cosines, reverse=True)


def test_three_pictures(
    shown: Shown, trial: str, senteval: SentEval, store: Path, tmp_path: Path
) -> None:
    senteval()
    output, names = tmp_path / "new" / "pictures", {"cosines-by-gold", "cosines", "projection"}
    out = shown("picture", "tiny-bert", trial[:8], "--output", output, "--store", store)
    assert {Path(line) for line in out.split()} == set(output.iterdir())
    assert {path.name for path in output.iterdir()} == {f"{name}.png" for name in names}
    for path in output.iterdir():
        with Image.open(path) as picture:
            assert picture.format == "PNG"
            pixels = np.asarray(picture.convert("L"))
        assert min(pixels.shape) > 300
        dark, grey = pixels < 128, np.abs(pixels.astype(int) - 160) < 60
        assert 0.005 < dark.mean() + grey.mean() < 0.9, "something is drawn"
        left, right = np.array_split(pixels, 2, axis=1)
        assert max((part > 250).mean() for part in (left, right)) < 0.99, "in both halves"


def test_minilm_finds_what_diffcses_table_has(
    shown: Shown, hub: Path, store: Path, monkeypatch: Any
) -> None:
    monkeypatch.setenv("HARNESS_HUB", str(hub))
    queries = ["you can do it, too.", "this is not a problem."]
    out = shown("retrieve", "sentence-transformers/all-MiniLM-L6-v2", *queries, "--store", store)
    one, two = (block.split("\n")[1:] for block in out.strip().split("\n\n")[1:])
    assert one[0].lower().endswith("you can use it, too."), "SimCSE's first one"
    assert any(line.lower().endswith("yes, you can do it.") for line in one), "DiffCSE's"
    assert len(one) == len(two) == 3
