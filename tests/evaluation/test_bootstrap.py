"""The bootstrap: against resamples ranked by scipy, against theory, and its p-values."""

import numpy as np
import pytest
import scipy.stats
from scipy.stats import spearmanr

from harness.errors import TrialFailure
from harness.evaluation.bootstrap import COUNTS_PER_BLOCK, replicates, uncertainty
from harness.evaluation.scores import of_mean


def scored(count: int, seed: int = 0, noise: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and gold scores, with ties in both; more noise gives a lower correlation."""
    generator = np.random.default_rng(seed)
    gold = generator.integers(0, 26, count) / 5
    return np.round(np.tanh(gold / 5 + noise * generator.normal(size=count)), 2), gold


def test_every_replicate_is_scipys_correlation_of_the_resample() -> None:
    """Also of those in the last block, which is shorter."""
    one, gold = scored(90)
    two = scored(90, seed=3)[0] + gold
    count = COUNTS_PER_BLOCK // 90 + 12
    correlations = replicates([one, two], gold, seed=7, resamples=count)
    assert correlations.shape == (2, count)
    order = np.lexsort((one + two, gold))
    drawn = order[np.random.default_rng(7).integers(0, 90, (count, 90))]
    for number in [*range(10), *range(count - 20, count)]:
        rows = drawn[number]
        for system, cosines in enumerate((one, two)):
            expected = 100 * spearmanr(cosines[rows], gold[rows]).statistic
            assert correlations[system, number] == pytest.approx(expected, abs=1e-9)


@pytest.mark.slow
def test_interval_and_standard_error_are_those_of_scipys_bootstrap() -> None:
    cosines, gold = scored(400)
    spread = uncertainty(cosines, gold, resamples=4000)
    theirs = scipy.stats.bootstrap(
        (cosines, gold), lambda one, two: 100 * spearmanr(one, two).statistic, n_resamples=1000,
        paired=True, vectorized=False, method="percentile", rng=np.random.default_rng(0),
    )  # fmt: skip
    error, interval = theirs.standard_error, theirs.confidence_interval
    assert spread.standard_error == pytest.approx(error, rel=0.1)
    assert spread.low == pytest.approx(interval.low, abs=error / 4)
    assert spread.high == pytest.approx(interval.high, abs=error / 4)


def test_the_standard_error_of_independent_values_is_that_of_theory() -> None:
    """Without correlation, the variance of Spearman's coefficient is 1 / (n - 1)."""
    generator = np.random.default_rng(0)
    found = uncertainty(*generator.normal(size=(2, 2000)), resamples=2000)
    assert found.standard_error == pytest.approx(100 / np.sqrt(1999), rel=0.07)
    assert found.high - found.low == pytest.approx(2 * 1.96 * found.standard_error, rel=0.07)


def test_the_seed_matters_and_order_does_not() -> None:
    cosines, gold = scored(300)
    expected = uncertainty(cosines, gold, seed=1)
    assert uncertainty(cosines, gold, seed=1) == expected
    assert uncertainty(cosines, gold, seed=2) != expected
    order = np.random.default_rng(0).permutation(300)
    shuffled = uncertainty(cosines[order], gold[order], seed=1)
    assert vars(shuffled) == pytest.approx(vars(expected), abs=1e-6)


def test_values_without_correlation_have_no_bootstrap() -> None:
    cosines, gold = scored(50)
    with pytest.raises(TrialFailure, match="constant"):
        uncertainty(np.ones(50), gold)
    with pytest.raises(TrialFailure, match="not finite"):
        replicates([cosines], np.full(50, np.nan))


@pytest.mark.parametrize("count", [2, 3, 4])
def test_few_pairs_have_a_score_and_no_interval(count: int) -> None:
    """In some resample all pairs are the same one."""
    assert uncertainty(np.arange(float(count)), np.arange(float(count))) is None


def test_the_mean_of_independent_scores() -> None:
    """The standard error of a mean of two is half the root of the sum of squares."""
    parts = [uncertainty(*scored(200, seed)) for seed in (0, 1)]
    spread = of_mean(50.0, parts)
    expected = np.sqrt(parts[0].standard_error ** 2 + parts[1].standard_error ** 2) / 2
    assert spread.standard_error == pytest.approx(expected)
    ends = (50 - 1.96 * expected, 50 + 1.96 * expected)
    assert (spread.low, spread.high) == pytest.approx(ends, abs=1e-3)
