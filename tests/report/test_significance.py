"""Significance: against scipy and statsmodels."""

from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats
from scipy.special import stdtr

from harness.report.groups import Score
from harness.report.significance import (
    Prediction,
    Samples,
    best_cells,
    holm,
    p_values,
    prediction,
    two_sided,
)

RANDOM = np.random.default_rng(0)


def samples(*rows: Sequence[float], trained: bool = True) -> Samples:
    """The rows as samples; where nothing is trained, a single value is a constant."""
    alone = np.nan if trained else 0.0
    return Samples(
        np.array([np.mean(row) for row in rows]),
        np.array([np.std(row, ddof=1) if len(row) > 1 else alone for row in rows]),
        np.array([len(row) for row in rows], float),
    )


def p_of(first: Samples, second: Samples) -> float:
    return float(p_values(first, second)[0])


@pytest.mark.parametrize(("left", "right"), [(2, 2), (3, 5), (10, 2), (5, 20)])
def test_seeds_are_compared_by_welch(left: int, right: int) -> None:
    for _ in range(20):
        one, two = RANDOM.normal(75, 1, left), RANDOM.normal(76, 3, right)
        expected = stats.ttest_ind(one, two, equal_var=False).pvalue
        assert p_of(samples(one), samples(two)) == pytest.approx(expected, rel=1e-9)
        assert p_of(samples(two), samples(one)) == pytest.approx(expected, rel=1e-9)
        three = RANDOM.normal(75, 1, left)
        broadcast = p_values(samples(one, two, three), samples(two))
        found = stats.ttest_ind(three, two, equal_var=False).pvalue
        assert broadcast == pytest.approx([expected, 1, found])


def test_single_values_and_constants() -> None:
    """Student's statistic with one value: (70 - 75) / (1 * sqrt(1 + 1/3)), two degrees."""
    seed, seeds = samples([70.0]), samples([74.0, 75.0, 76.0])
    expected = 2 * stats.t.sf(5 / np.sqrt(4 / 3), 2)
    assert (p_of(seed, seeds), p_of(seeds, seed)) == pytest.approx((expected, expected))
    constant = samples([73.0], trained=False)
    for other in (samples([75.0]), constant):  # two single seeds, and one beside a constant
        assert np.isnan([p_of(seed, other), p_of(other, seed)]).all()
    assert p_of(seed, samples([60.0, 60.0, 60.0])) == 0
    values = [74.0, 75.0, 76.5]
    expected = stats.ttest_1samp(values, 73.0).pvalue
    assert p_of(constant, samples(values)) == pytest.approx(expected)
    assert p_of(constant, constant) == 1
    assert p_of(constant, samples([73.1], trained=False)) == 0


@pytest.mark.slow
def test_holm_is_that_of_statsmodels() -> None:
    from statsmodels.stats.multitest import multipletests  # for a second

    table = RANDOM.uniform(0, 0.1, (3, 8))  # statsmodels collects garbage for each row
    expected = np.array([multipletests(row, method="holm")[1] for row in table])
    assert holm(table) == pytest.approx(expected)
    found = holm(np.array([0.02, np.nan, 0.01]))  # a missing test does not count
    assert found[[0, 2]] == pytest.approx([0.02, 0.02])
    assert np.isnan(found[1])


def test_the_best_cells_by_hand() -> None:
    """Row 1 is the best of both columns; row 0 is close to it in column 1 alone."""
    first = samples([70.0, 70.1, 69.9], [75.0, 75.1, 74.9], [60.0, 60.1, 59.9])
    second = samples([74.0, 75.0, 76.0], [75.0, 76.0, 77.0], [60.0, 60.1, 59.9])
    best = best_cells([first, second], [1, 1]).tolist()
    assert best == [[False, True], [True, True], [False, False]]
    lower = samples([0.1, 0.11], [0.5, 0.51])
    assert best_cells([lower], [-1]).tolist() == [[True], [False]]
    assert best_cells([lower], [0]).tolist() == [[False], [False]]
    alone = Samples(np.array([75.0, np.nan]), np.array([1.0, np.nan]), np.array([3.0, 0.0]))
    assert not best_cells([alone], [1]).any()


def test_holm_over_the_columns_keeps_more_cells() -> None:
    """A p-value of 0.04 is significant alone, and is not beside nine columns like it."""
    base = np.array([-1.0, 0.0, 1.0])
    shift = 2 * stats.t.isf(0.02, 4) / np.sqrt(6)  # Welch of equal spreads: four degrees, p = 0.04
    column = samples(75 + base, 75 + base - shift)
    assert p_values(column[[0]], column[[1]]) == pytest.approx([0.04])
    assert best_cells([column], [1]).tolist() == [[True], [False]]
    assert best_cells([column] * 10, [1] * 10)[1].all()


# Student's t against scipy.


@pytest.mark.parametrize(("most", "digits"), [(100, 1e-12), (1e5, 1e-9)])
def test_two_sided_is_that_of_scipy(most: float, digits: float) -> None:
    t = np.concatenate([RANDOM.normal(size=500) * 3, 10 ** RANDOM.uniform(-6, 3, 500)])
    freedom = 10 ** RANDOM.uniform(-0.3, np.log10(most), 1000)
    expected = 2 * stdtr(freedom, -np.abs(t))
    np.testing.assert_allclose(two_sided(t, freedom), expected, rtol=digits, atol=1e-250)


def test_the_ends() -> None:
    t = np.array([0.0, np.inf, -np.inf, np.nan, 1.0, 1.0])
    freedom = np.array([3.0, 3.0, 3.0, 3.0, 0.0, np.nan])
    np.testing.assert_array_equal(two_sided(t, freedom), [1, 0, 0, np.nan, np.nan, np.nan])


# How likely a published number is under our seeds, against scipy.


def predicted(values: Sequence[float]) -> Prediction:
    return prediction(Score(float(np.mean(values)), float(np.std(values, ddof=1)), len(values)))


@pytest.mark.parametrize(
    "values",
    [[70.0, 72.0], [75.1, 75.4, 76.2], [1.0, 2.0, 4.0, 8.0, 16.0], RANDOM.normal(75, 1, 10)],
)
def test_the_prediction_of_one_more_run_is_that_of_scipy(values: Sequence[float]) -> None:
    """Student's test of two samples whose second has one value has the same t and freedom."""
    prediction, n = predicted(values), len(values)
    scale = np.std(values, ddof=1) * np.sqrt(1 + 1 / n)
    low, high = stats.t.interval(0.95, n - 1, loc=np.mean(values), scale=scale)
    assert prediction.interval == pytest.approx((low, high))
    for published in (low - 0.01, low + 0.01, high - 0.01, high + 0.01, 0.0, 75.6, 90.0):
        t = (np.mean(values) - published) / scale
        assert prediction.p_value(published) == pytest.approx(2 * stats.t.sf(abs(t), n - 1))
        assert prediction.agrees(published) == (low <= published <= high)
        assert prediction.agrees(published) == (prediction.p_value(published) >= 0.05)


@pytest.mark.slow
def test_p_is_uniform_where_nothing_differs() -> None:
    """A twentieth of many reproductions of one method differs at 5 %."""
    rows = np.random.default_rng(0).normal(75, 0.5, (1000, 4))
    p = [predicted(row[:3]).p_value(row[3]) for row in rows]
    assert stats.kstest(p, "uniform").pvalue > 0.01


def test_equal_runs_predict_themselves_and_one_run_nothing() -> None:
    found = predicted([75.0, 75.0])
    assert (found.p_value(75.0), found.p_value(75.1)) == (1, 0)
    assert prediction(Score(75.0, None, 1)) is None
    assert prediction(None) is None
