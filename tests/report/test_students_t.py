"""Student's t against scipy."""

import numpy as np
import pytest
from scipy.special import stdtr

from harness.report.statistics.students_t import two_sided

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
