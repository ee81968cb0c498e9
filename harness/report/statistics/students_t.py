"""Two-sided p-values and quantiles of Student's t.

`scipy.special` has them, too, but its import takes 0.4 s, a seventh of `harness table` on a hundred
thousand trials (benchmarks/store.py). Tests compare both.
"""

import math

import numpy as np

LEVEL = 0.95
"""The share of the distribution that lies inside an interval"""
_NORMAL = 1.959963984540054
"""The quantile for infinitely many degrees of freedom"""
_STEPS = 1000
"""Most steps of the continued fraction; it takes about the root of the degrees of freedom"""
_TINY = 1e-300


def two_sided(t: np.ndarray, freedom: np.ndarray) -> np.ndarray:
    """The probability of a value at least as far from 0 as `t`, to at least 9 digits.

    t: values of any sign. freedom: degrees of freedom above 0. The shapes are broadcast; the result
    is NaN where one of the two is, or where there are no degrees of freedom.
    """
    t, freedom = np.broadcast_arrays(np.asarray(t, float), np.asarray(freedom, float))
    known = np.isfinite(t) & np.isfinite(freedom) & (freedom > 0)
    found = np.where(np.isinf(t) & (freedom > 0), 0.0, np.nan)
    square, own = t[known] ** 2, freedom[known]
    found[known] = _incomplete_beta(own / 2, 0.5, own / (own + square), square / (own + square))
    return found


def quantile(freedom: float | np.ndarray) -> np.ndarray:
    """The values that Student's t exceeds in size with a probability of 5 %."""
    freedom = np.asarray(freedom, float)
    logs = [math.lgamma((v + 1) / 2) - math.lgamma(v / 2) for v in freedom.ravel()]
    front = 2 * np.exp(np.reshape(logs, freedom.shape)) / np.sqrt(freedom * math.pi)
    found = np.full_like(freedom, _NORMAL)
    # Newton's steps: the probability is convex, and the quantile is above that of the normal
    # distribution, so each of them comes nearer from below.
    for _ in range(_STEPS):
        density = front * (1 + found**2 / freedom) ** (-(freedom + 1) / 2)
        step = (two_sided(found, freedom) - (1 - LEVEL)) / density
        found = found + step
        if np.all(np.abs(step) <= 1e-12 * found):
            break
    return found


def _incomplete_beta(a: np.ndarray, b: float, x: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """The regularised incomplete beta function I_x(a, b); `rest` is 1 - x with all its digits."""
    constant = np.array([math.lgamma(v + b) - math.lgamma(v) - math.lgamma(b) for v in a])
    with np.errstate(divide="ignore"):
        front = np.exp(constant + a * np.log(x) + b * np.log(rest))
    # There the fraction converges fast; elsewhere 1 - I_1-x(b, a) is the same.
    near = x < (a + 1) / (a + b + 2)
    first, second = np.where(near, a, b), np.where(near, b, a)
    part = front * _fraction(first, second, np.where(near, x, rest)) / first
    found: np.ndarray = np.clip(np.where(near, part, 1 - part), 0.0, 1.0)
    return found


def _fraction(a: np.ndarray, b: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The continued fraction of the incomplete beta function (NIST's DLMF 8.17.22), after Lentz."""
    above = np.ones_like(x)
    below = 1 / _away_from_zero(1 - (a + b) * x / (a + 1))
    found = below.copy()
    for m in range(1, _STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        change = np.ones_like(x)
        for term in (even, odd):
            below = 1 / _away_from_zero(1 + term * below)
            above = _away_from_zero(1 + term / above)
            change = above * below
            found *= change
        if np.all(np.abs(change - 1) < 1e-15):
            break
    return found


def _away_from_zero(values: np.ndarray) -> np.ndarray:
    found: np.ndarray = np.where(np.abs(values) < _TINY, _TINY, values)
    return found
