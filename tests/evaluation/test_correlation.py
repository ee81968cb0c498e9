"""SentEval's aggregations over subsets, against scipy; and embeddings that have no correlation."""

import numpy as np
import pytest
from scipy.stats import ortho_group, pearsonr, spearmanr

from harness.data.sts_pairs import Pairs
from harness.errors import TrialFailure
from harness.evaluation.correlation import correlation, spearman, sts_scores

PARTS = (40, 25, 60)
"""The pairs of the subsets a, b and c"""


@pytest.fixture
def pairs() -> Pairs:
    """Pairs of empty sentences with random gold scores, in three subsets."""
    gold = np.random.default_rng(1).integers(0, 26, sum(PARTS)) / 5
    return Pairs([""] * len(gold), [""] * len(gold), gold, dict(zip("abc", PARTS, strict=True)))


@pytest.fixture
def vectors(pairs: Pairs) -> np.ndarray:
    """(2, pairs, 12) float32: nearer with a higher score; each subset has noise of its own size."""
    generator = np.random.default_rng(2)
    first, noise = generator.normal(size=(2, len(pairs), 12))
    spread = np.repeat([0.5, 1, 3], PARTS) * (1 + 5 - pairs.gold)
    return np.stack([first, first + spread[:, None] * noise / 4]).astype(np.float32)


def cosines(vectors: np.ndarray) -> np.ndarray:
    """The cosines of the pairs, written out."""
    one, two = vectors.astype(np.float64)
    return (one * two).sum(1) / np.linalg.norm(one, axis=1) / np.linalg.norm(two, axis=1)


def test_aggregations_against_scipy(pairs: Pairs, vectors: np.ndarray) -> None:
    scores = sts_scores(*vectors, pairs)
    similar, cuts = cosines(vectors), np.cumsum(PARTS)[:-1]
    for measure, scipys in (("pearson", pearsonr), ("spearman", spearmanr)):
        parts = [
            100 * scipys(part, gold).statistic
            for part, gold in zip(np.split(similar, cuts), np.split(pairs.gold, cuts), strict=True)
        ]
        expected = {
            "all": 100 * scipys(similar, pairs.gold).statistic,
            "mean": sum(parts) / 3,
            "wmean": sum(part * size for part, size in zip(parts, PARTS, strict=True)) / sum(PARTS),
        }
        # The test means something only where these are three numbers.
        assert len({round(value, 1) for value in expected.values()}) == 3
        aggregated = {name: getattr(scores[name], measure) for name in expected}
        assert aggregated == pytest.approx(expected, abs=1e-9)
        subsets = [getattr(scores[name], measure) for name in "abc"]
        assert subsets == pytest.approx(parts, abs=1e-9)


def test_without_subsets_there_is_one_correlation(pairs: Pairs, vectors: np.ndarray) -> None:
    found = sts_scores(*vectors, Pairs(pairs.first, pairs.second, pairs.gold))
    assert list(found) == ["all"]
    assert found["all"].spearman == spearman(*vectors, pairs.gold)


def test_scale_rotation_and_order_change_nothing(pairs: Pairs, vectors: np.ndarray) -> None:
    expected = sts_scores(*vectors, pairs)
    rotation = ortho_group.rvs(12, random_state=0)
    turned = (1e4 * vectors.astype(np.float64) @ rotation).astype(np.float32)
    rows, random = np.arange(len(pairs)), np.random.default_rng(3)
    order = np.concatenate([random.permutation(rows[part]) for part in pairs.parts().values()])
    mixed = Pairs(pairs.first, pairs.second, pairs.gold[order], pairs.subsets)
    shuffled = sts_scores(*vectors[:, order], mixed)
    for other, tolerance in ((sts_scores(*turned, pairs), 1e-4), (shuffled, 1e-6)):
        assert other.keys() == expected.keys()
        for name, one in expected.items():
            assert one == pytest.approx(other[name], abs=tolerance)


@pytest.mark.parametrize("noise", [0, 1e-7])
def test_a_constant_embedding_has_no_score(pairs: Pairs, noise: float) -> None:
    """A constant embedding has no score either when padding and batches have rounded it."""
    vectors = 1 + noise * np.random.default_rng(0).normal(size=(2, len(pairs), 12))
    for measure in (lambda: sts_scores(*vectors, pairs), lambda: spearman(*vectors, pairs.gold)):
        with pytest.raises(TrialFailure, match="constant"):
            measure()


def test_a_constant_subset_and_equal_gold_scores_have_no_correlation(
    pairs: Pairs, vectors: np.ndarray
) -> None:
    part = pairs.parts()["b"]
    vectors[1, part] = vectors[0, part]
    with pytest.raises(TrialFailure, match="same similarity"):
        sts_scores(*vectors, pairs)
    with pytest.raises(TrialFailure, match="same gold score"):
        correlation(np.ones(3), np.ones(3))
    with pytest.raises(TrialFailure, match="a single sentence pair"):
        correlation(np.ones(1), np.ones(1))
