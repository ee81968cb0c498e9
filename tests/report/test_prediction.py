"""Student's t, and how likely a published number is under our seeds, against scipy."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import stdtr

from harness.report.groups import Score
from harness.report.significance import Prediction, agrees, prediction, two_sided

# Student's t against scipy.

RANDOM = np.random.default_rng(0)


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


def test_shapes_are_broadcast() -> None:
    found = two_sided(np.array([[1.0], [2.0]]), np.array([3.0, 4.0, 5.0]))
    assert found.shape == (2, 3)
    assert found[1, 2] == pytest.approx(2 * stdtr(5.0, -2.0))


# How likely a published number is under our seeds, against scipy and against drawn numbers.

VALUES = [[70.0, 72.0], [75.1, 75.4, 76.2], [1.0, 2.0, 4.0, 8.0, 16.0]]


def of(values: list[float]) -> Prediction:
    found = prediction(Score(float(np.mean(values)), float(np.std(values, ddof=1)), len(values)))
    assert found is not None
    return found


@pytest.mark.parametrize("values", VALUES)
def test_the_interval_is_that_of_scipy(values: list[float]) -> None:
    n = len(values)
    scale = np.std(values, ddof=1) * np.sqrt(1 + 1 / n)
    expected = stats.t.interval(0.95, n - 1, loc=np.mean(values), scale=scale)
    assert of(values).interval == pytest.approx(expected)


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("published", [0.0, 71.0, 75.6, 90.0])
def test_p_is_that_of_welch_with_one_published_run(values: list[float], published: float) -> None:
    """Student's test of two samples whose second has one value has the same t and freedom."""
    n = len(values)
    t = (np.mean(values) - published) / (np.std(values, ddof=1) * np.sqrt(1 / n + 1 / 1))
    assert of(values).p_value(published) == pytest.approx(2 * stats.t.sf(abs(t), n - 1))


def test_p_is_uniform_where_nothing_differs() -> None:
    """Of many reproductions of one method, a twentieth differs at 5 %."""
    rows = np.random.default_rng(0).normal(75, 0.5, (1000, 4))
    p = [of(list(row[:3])).p_value(row[3]) for row in rows]
    assert stats.kstest(p, "uniform").pvalue > 0.01


@pytest.mark.parametrize("values", VALUES)
def test_it_agrees_with_the_mark_of_the_table(values: list[float]) -> None:
    found, spread = of(values), np.std(values, ddof=1)
    for published in np.linspace(min(values) - 20 * spread, max(values) + 20 * spread, 100):
        same = agrees(found.mean, found.std, found.n, float(published))
        assert same == (found.p_value(float(published)) >= 0.05)


def test_equal_runs_predict_themselves() -> None:
    found = of([75.0, 75.0])
    assert found.p_value(75.0) == 1
    assert found.p_value(75.1) == 0


def test_one_run_predicts_nothing() -> None:
    assert prediction(Score(75.0, None, 1)) is None
    assert prediction(None) is None
