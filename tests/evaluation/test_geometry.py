"""Alignment, uniformity, anisotropy and cosines by gold score, against plain formulas."""

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from harness.data.sts_pairs import LOADERS, Pairs
from harness.errors import TrialFailure
from harness.evaluation import geometry
from harness.evaluation.geometry import first_component, mean_cosine, uniformity

MEASURES = [uniformity, mean_cosine, first_component]


def rows(count: int, width: int = 16, seed: int = 0) -> np.ndarray:
    """Float32 rows of several lengths, with a preferred direction."""
    generator = np.random.default_rng(seed)
    scale = generator.uniform(0.2, 5, (count, 1))
    return (scale * (generator.normal(size=(count, width)) + 0.5)).astype(np.float32)


def unit(vectors: np.ndarray) -> np.ndarray:
    """The rows with unit length."""
    vectors = vectors.astype(np.float64)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_uniformity_against_all_distances() -> None:
    """And closed forms: the distance of orthogonal directions is sqrt(2), of opposite ones 2."""
    for count in (2, 7, 511, 512, 513, 1100):
        vectors = rows(count)
        expected = np.log(np.exp(-2 * pdist(unit(vectors), "sqeuclidean")).mean())
        assert uniformity(vectors) == pytest.approx(expected, abs=1e-6)
    assert uniformity(np.eye(600) * 3) == pytest.approx(-4, abs=1e-6)
    assert uniformity(np.array([[1.0, 0], [-2, 0]])) == pytest.approx(-8, abs=1e-6)
    assert uniformity(np.array([[1.0, 0], [-2, 0], [0, 1]])) == pytest.approx(
        np.log((np.exp(-8) + 2 * np.exp(-4)) / 3)
    )


def test_uniformity_holds_no_large_tensor() -> None:
    """The peak is below one (n, n) matrix of float32, which has 30 MB, whatever the width is."""
    vectors = rows(2758, 384)
    tracemalloc.start()
    uniformity(vectors)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30e6


def test_alignment_is_the_mean_squared_distance() -> None:
    first, second = rows(50), rows(50, seed=1)
    texts = [[f"{side}{number}" for number in range(50)] for side in "ab"]
    pairs = Pairs(*texts, np.where(np.arange(50) < 20, 4.5, 4.0))
    squares = ((unit(first) - unit(second)) ** 2).sum(axis=1)
    found = geometry.figures("x", pairs, np.concatenate([first, second]))
    assert found.metrics["alignment"] == pytest.approx(squares[:20].mean(), abs=1e-9)
    assert found.details["x/gold>=4/alignment"] == pytest.approx(squares.mean(), abs=1e-9)
    with pytest.raises(TrialFailure, match="no pair has a gold score above 4"):
        geometry.alignment(np.empty(0))


@pytest.mark.usefixtures("hub")
def test_the_sets_of_sts_benchmark() -> None:
    """231 pairs are above 4, and 338 have at least 4 (diffcse.md, section 6)."""
    pairs = LOADERS["stsb"]()
    numbers = {text: number for number, text in enumerate(sorted(set(pairs.texts)))}
    table = rows(len(numbers))
    vectors = table[[numbers[text] for text in pairs.texts]]
    squares = ((unit(vectors[:1379]) - unit(vectors[1379:])) ** 2).sum(axis=1)
    found = geometry.figures("x", pairs, vectors)
    every, details = found.metrics, found.details
    assert every["alignment"] == pytest.approx(squares[pairs.gold > 4].sum() / 231, abs=1e-9)
    expected = squares[pairs.gold >= 4].sum() / 338
    assert details["x/gold>=4/alignment"] == pytest.approx(expected, abs=1e-9)
    assert every["uniformity"] == pytest.approx(uniformity(vectors), abs=1e-6)
    assert details["x/distinct/uniformity"] == pytest.approx(uniformity(table), abs=1e-6)
    assert details["x/distinct/mean-cosine"] == pytest.approx(mean_cosine(table), abs=1e-9)
    assert abs(details["x/distinct/uniformity"] - every["uniformity"]) > 1e-4
    assert sum(value for name, value in details.items() if name.endswith("/pairs")) == 1379


def test_mean_cosine_is_that_of_all_pairs() -> None:
    vectors = rows(300)
    expected = 1 - pdist(vectors.astype(np.float64), "cosine").mean()
    assert mean_cosine(vectors) == pytest.approx(expected, abs=1e-9)
    assert mean_cosine(np.eye(5)) == pytest.approx(0, abs=1e-12)


def test_the_first_component_against_singular_values() -> None:
    vectors = rows(300).astype(np.float64)
    values = np.linalg.svd(vectors - vectors.mean(axis=0), compute_uv=False)
    expected = values[0] ** 2 / (values**2).sum()
    assert first_component(rows(300)) == pytest.approx(expected, abs=1e-9)
    line = np.array([1, -1]) + np.outer(np.arange(1, 20), [3.0, 4.0])
    assert first_component(line) == pytest.approx(1)


def test_groups_by_gold_score() -> None:
    """A whole score begins a group, 5 belongs to the last one, and a group may be empty."""
    gold = np.array([0, 0.99, 1, 2.5, 4, 5, 4.99, 2])
    groups = geometry.cosines_by_gold(np.arange(8.0), gold)
    assert [(group.low, group.high) for group in groups] == [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]
    assert [group.cosines.tolist() for group in groups] == [[0, 1], [2], [3, 7], [], [4, 5, 6]]


@pytest.mark.parametrize("measure", MEASURES)
def test_bad_embeddings_have_no_geometry(measure: Callable[[np.ndarray], float]) -> None:
    zero = "1 of 9 embeddings are zero"
    for value, message in ((np.nan, "not finite"), (np.inf, "not finite"), (0.0, zero)):
        vectors = rows(9)
        vectors[4] = value
        with pytest.raises(TrialFailure, match=message):
            measure(vectors)
    for constant in (np.ones((9, 4)), np.zeros((9, 4)), 1 + 1e-8 * rows(9)):
        with pytest.raises(TrialFailure, match="constant"):
            measure(constant)
