"""The suites `sts` and `graded`: scores against scipy's, and embeddings that have no score."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from harness.data.batching import TextBatch
from harness.data.hub import EMBEDDED
from harness.data.sts_pairs import LOADERS
from harness.errors import TrialFailure
from harness.evaluation.correlation import spearman
from harness.evaluation.embedder import Embedder
from harness.evaluation.suites import suite
from harness.plugin.kit import Kit
from tests.evaluation.conftest import WordVectors, rank_correlation

KitFor = Callable[..., Kit]
TESTS = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr")


@pytest.mark.slow
@pytest.mark.usefixtures("hub")
def test_scores_of_every_task_and_their_average() -> None:
    """One Spearman over all pairs of a year; the average is that of the seven rounded scores."""
    vectors = WordVectors()
    scores = suite("sts").score_test(vectors)
    expected = {}
    for task in (*TESTS, "stsb-dev"):
        pairs = LOADERS[task]()
        expected[task] = rank_correlation(vectors(pairs.first), vectors(pairs.second), pairs.gold)
    dev = expected.pop("stsb-dev")
    assert set(scores.metrics) == {*TESTS, "avg"}
    for task, score in expected.items():
        assert scores.metrics[task] == pytest.approx(score, abs=1e-6), task
        spread = scores.uncertainty[task]
        assert spread.low < score < spread.high
    average = np.mean([round(score, 2) for score in expected.values()])
    assert scores.metrics["avg"] == pytest.approx(average, abs=1e-9)
    assert suite("sts").score_dev(vectors) == pytest.approx(dev, abs=1e-6)
    # Words in common are worth something, unless pairs and scores do not belong together.
    assert min(expected.values()) > 20


@pytest.mark.slow
def test_the_graded_suite_against_its_file(kit_for: KitFor) -> None:
    kit = kit_for("pooling", encoder="tiny-bert")
    embedder = Embedder(kit.build(), kit)
    expected = {}
    for split in ("dev", "test"):
        text = (EMBEDDED / "datasets/harness/graded-sentences" / f"{split}.tsv").read_text()
        rows = [line.split("\t") for line in text.splitlines()]
        first, second = (embedder([row[place] for row in rows]) for place in (1, 2))
        expected[split] = rank_correlation(first, second, [float(row[0]) for row in rows])
    assert suite("graded").score_dev(embedder) == pytest.approx(expected["dev"], abs=1e-3)
    metrics = suite("graded").score_test(embedder).metrics
    assert metrics == {"graded": pytest.approx(expected["test"], abs=1e-3)}


@pytest.mark.slow
def test_a_real_encoder_end_to_end(hub: Path, kit_for: KitFor) -> None:
    """mini-bert with mean pooling on STS-B dev, against transformers alone, without padding."""
    kit = kit_for("pooling", encoder="mini-bert", pooling="mean")
    embedder, vectors = Embedder(kit.build(), kit), {}

    def embed(texts: Sequence[str], *, dev: bool = False) -> np.ndarray:
        found = embedder(texts, dev=dev)
        vectors.update(zip(texts, found, strict=True))
        return found

    pairs = LOADERS["stsb-dev"]()
    score = suite("sts").score_dev(embed)
    first, second = (
        np.array([vectors[text] for text in texts]) for texts in (pairs.first, pairs.second)
    )
    some = pairs.first[::6]
    expected = by_transformers(hub / "models/mini-bert", {*some})
    assert np.abs(first[::6] - [expected[text] for text in some]).max() < 1e-5
    # Rounding may swap two neighbours in the order.
    assert score == pytest.approx(rank_correlation(first, second, pairs.gold), abs=1e-3)
    # The README of the mirror has this number.
    assert score == pytest.approx(62.7, abs=0.1)


def by_transformers(folder: Path, texts: set[str]) -> dict[str, np.ndarray]:
    """Mean pooling with transformers alone; all sentences of a batch have the same length."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    lengths: dict[int, list[str]] = {}
    for text in sorted(texts):
        lengths.setdefault(len(tokenizer(text)["input_ids"]), []).append(text)
    vectors = {}
    with torch.inference_mode():
        for group in lengths.values():
            for start in range(0, len(group), 32):
                part = group[start : start + 32]
                states = model(**tokenizer(part, return_tensors="pt")).last_hidden_state
                vectors |= dict(zip(part, states.mean(dim=1).numpy(), strict=True))
    return vectors


def test_spearman_against_ranks_with_ties() -> None:
    """Lengths must not be rounded to float32 before the product is divided by them."""
    generator = np.random.default_rng(0)
    first, second = generator.normal(size=(2, 2000, 6)).astype(np.float32)
    gold = generator.integers(0, 6, 2000).astype(float)
    near = first + 1e-3 * second
    for other in (second, near):
        expected = rank_correlation(first, other, gold.tolist())
        assert spearman(first, other, gold) == pytest.approx(expected, abs=1e-9)
        assert spearman(first * 1024, other / 1024, gold) == pytest.approx(expected, abs=1e-6)


def test_cosines_that_differ_by_1e9_keep_their_order() -> None:
    angles = 1.0 + np.arange(50) * 1e-9
    lengths = np.random.default_rng(0).uniform(0.5, 5, (50, 1))
    second = np.stack([np.cos(angles), np.sin(angles)], axis=1) * lengths
    first = np.tile([1.0, 0.0], (50, 1))
    assert spearman(first, second, -angles) == pytest.approx(100)
    beside_zero = np.array([[1.0, 0], [0, 0], [-1, 0]])  # whose cosine is 0
    assert spearman(first[:3], beside_zero, np.array([3.0, 2, 1])) == pytest.approx(100)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_an_embedding_that_is_not_finite_fails_the_trial(kit_for: KitFor, value: float) -> None:
    def embed(batch: TextBatch) -> torch.Tensor:
        vectors = torch.randn(len(batch.input_ids), 8)
        vectors[0, 3] = value
        return vectors

    kit = kit_for("pooling", encoder="tiny-bert", suite="graded")
    method = kit.build()
    method.embed = embed
    with pytest.raises(TrialFailure, match="not finite"):
        suite("graded").score_test(Embedder(method, kit))
