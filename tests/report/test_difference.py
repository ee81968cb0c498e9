"""The difference of two systems over seeds, over test pairs and over both: against references."""

import numpy as np
import pytest
from scipy import stats

from benchmarks.comparison import DESIGNS, Design, covered, simulated
from harness.report.difference import Scored, over_both, over_pairs, over_seeds
from harness.report.significance import quantile

RANDOM = np.random.default_rng(0)
CONSTANT = Scored((73.0,), ((0, 0),), trained=False)


def seeds(values: list[float], first: int = 0, subset: int = 0) -> Scored:
    draws = tuple((subset, seed) for seed in range(first, first + len(values)))
    return Scored(tuple(values), draws, trained=True)


@pytest.mark.parametrize(("left", "right"), [(2, 3), (3, 5), (10, 2)])
def test_other_seeds_are_compared_by_welch(left: int, right: int) -> None:
    one, two = RANDOM.normal(75, 1, left), RANDOM.normal(76, 3, right)
    difference = over_seeds(seeds([*one]), seeds([*two], first=50))
    expected = stats.ttest_ind(one, two, equal_var=False)
    interval = expected.confidence_interval()
    assert (difference.value, difference.p_value) == pytest.approx(
        (one.mean() - two.mean(), expected.pvalue)
    )
    assert (difference.low, difference.high) == pytest.approx((interval.low, interval.high))
    assert difference.basis == f"Welch's t-test, {left} and {right} seeds"
    freedom = np.array([1.0, 2.0, 2.7, 5.0, 30.0, 400.0])
    assert quantile(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), rel=1e-8)


def test_common_seeds_are_paired_in_any_order() -> None:
    one, two = RANDOM.normal(75, 1, 5), RANDOM.normal(76, 3, 5)
    shuffled = Scored(tuple(two[::-1]), tuple((0, seed) for seed in range(5))[::-1], trained=True)
    expected = stats.ttest_rel(one, two)
    for other in (seeds([*two]), shuffled):
        difference = over_seeds(seeds([*one]), other)
        assert difference.p_value == pytest.approx(expected.pvalue)
        assert difference.low == pytest.approx(expected.confidence_interval().low)
        assert difference.basis == "paired t-test, 5 common seeds"


def test_one_seed_borrows_the_spread_of_the_other_and_a_constant_has_none() -> None:
    lone = over_seeds(seeds([70.0]), seeds([74.0, 75.0, 76.0], first=1))
    assert lone.p_value == pytest.approx(2 * stats.t.sf(5 / np.sqrt(4 / 3), 2))
    values = [74.0, 75.0, 76.5]
    found = over_seeds(CONSTANT, seeds(values))
    assert found.p_value == pytest.approx(stats.ttest_1samp(values, 73.0).pvalue)
    assert found.basis == "t-test, 3 seeds against a constant"
    # Without a spread nothing is said of seeds.
    assert over_seeds(seeds([70.0]), seeds([75.0])) is None
    assert over_seeds(seeds([70.0]), CONSTANT) is None
    assert over_seeds(CONSTANT, CONSTANT) is None


def test_over_pairs_the_interval_is_that_of_the_resampled_means() -> None:
    resampled = RANDOM.normal(75, 2, (3, 400)), RANDOM.normal(70, 1, (2, 400))
    one = Scored((75.0, 75.0, 75.0), ((0, 0), (0, 1), (0, 2)), True, resampled[0])
    two = Scored((70.0, 70.0), ((0, 8), (0, 9)), True, resampled[1])
    difference, back = over_pairs(one, two), over_pairs(two, one)
    drawn = [np.mean(resampled[0][:, at]) - np.mean(resampled[1][:, at]) for at in range(400)]
    assert (difference.low, difference.high) == pytest.approx((*np.percentile(drawn, [2.5, 97.5]),))
    as_far = sum(abs(each - 5.0) >= 5.0 for each in drawn)
    assert difference.p_value == (as_far + 1) / 401
    assert (back.low, back.high) == pytest.approx((-difference.high, -difference.low))
    assert over_pairs(one, CONSTANT) is None, "its pairs are not known"


def test_a_system_does_not_differ_from_itself() -> None:
    one = Scored((75.0, 76.0), ((0, 0), (0, 1)), True, RANDOM.normal(75, 2, (2, 300)))
    for found in (over_seeds(one, one), over_pairs(one, one), over_both(one, one)):
        assert (found.value, found.low, found.high, found.p_value) == (0, 0, 0, 1)


def test_over_both_is_the_sum_of_both_against_a_reference_in_float64() -> None:
    """Normal deviations of the pairs that all seeds share, and t of the seeds: convolved."""
    shared = RANDOM.normal(0, 2.0, 4000)
    values = np.array([74.0, 75.0, 77.0])
    resampled = values[:, None] + shared
    difference = over_both(
        Scored(tuple(values), ((0, 0), (0, 1), (0, 2)), True, resampled),
        Scored((73.0,), ((0, 0),), False, np.full((1, 4000), 73.0)),
    )
    grid = np.linspace(-60, 60, 24_001)
    step, error = grid[1] - grid[0], values.std(ddof=1) / np.sqrt(3)
    cumulative = np.zeros_like(grid)
    for z in np.linspace(-4, 4, 81):
        cumulative += stats.t.cdf((grid - z * shared.std()) / error, 2) * stats.norm.pdf(z) * 0.1
    low, high = (grid[np.searchsorted(cumulative, level)] for level in (0.025, 0.975))
    assert step < 0.01
    assert (difference.low - difference.value, difference.high - difference.value) == pytest.approx(
        (low, high), rel=0.04
    )


def test_what_a_seed_scores_by_chance_on_the_pairs_counts_once() -> None:
    """Seeds that share nothing: all their deviations are in the spread over seeds already."""
    values = RANDOM.normal(75, 1, 6)
    own = RANDOM.normal(0, 1, (6, 2000))
    one = Scored(tuple(values), tuple((0, at) for at in range(6)), True, values[:, None] + own)
    two = Scored((70.0,), ((0, 0),), False, np.full((1, 2000), 70.0))
    alone, both = over_seeds(one, two), over_both(one, two)
    assert both.reach == pytest.approx(alone.reach, rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("design", DESIGNS, ids=str)
def test_intervals_cover_the_true_difference_in_simulated_sweeps(design: Design) -> None:
    """60 sweeps, of which at most 8 miss (p < 1 % for 95 %); benchmarks/README.md has 1,000."""
    share = covered(simulated(design, sweeps=60, resamples=200))
    assert 52 / 60 <= share <= 1
