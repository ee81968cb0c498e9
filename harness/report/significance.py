"""Which scores differ by more than their seeds explain.

Two rows are compared by Welch's t-test over their seeds. The p-values of a row over the columns of
a table, and those of all pairs of a column, are corrected after Holm. Where a row has one seed, the
spread of the other stands for both, which is Student's test with one value on a side. A row that
does not train has no seeds and no spread: it is a constant. Two rows of one seed each have no
spread, nor have one seed and a constant, so their p-value is NaN, unless the caller knows another
test.

Student's t is our own: the import of `scipy.special` takes 0.4 s, a seventh of `harness table` on a
hundred thousand trials (benchmarks/store.py). Tests compare both.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from harness.report.groups import Score

SIGNIFICANT = 0.05
"""A difference is significant where its corrected p-value is at most this"""
LEVEL = 0.95
"""The share of the distribution that lies inside an interval"""
_NORMAL = 1.959963984540054
"""The quantile for infinitely many degrees of freedom"""
PairTest = Callable[[int, int, int], float]
"""The p-value for no difference between two rows in a column; NaN where it is unknown"""


def two_sided(t: np.ndarray, freedom: np.ndarray) -> np.ndarray:
    """The probability of a value at least as far from 0 as `t`, to at least 9 digits.

    t: values of any sign. freedom: degrees of freedom above 0. The shapes are broadcast; the result
    is NaN where one of the two is, or where there are no degrees of freedom.
    """
    t, freedom = np.broadcast_arrays(np.asarray(t, float), np.asarray(freedom, float))
    finite = np.isfinite(t) & np.isfinite(freedom) & (freedom > 0)
    probability = np.where(np.isinf(t) & (freedom > 0), 0.0, np.nan)
    square, own = t[finite] ** 2, freedom[finite]
    probability[finite] = _incomplete_beta(
        own / 2, 0.5, own / (own + square), square / (own + square)
    )
    return probability


def quantile(freedom: float | np.ndarray, probability: float = 1 - LEVEL) -> np.ndarray:
    """The values that Student's t exceeds in size with a probability of at most 5 %."""
    freedom = np.asarray(freedom, float)
    logs = [math.lgamma((v + 1) / 2) - math.lgamma(v / 2) for v in freedom.ravel()]
    front = 2 * np.exp(np.reshape(logs, freedom.shape)) / np.sqrt(freedom * math.pi)
    value = np.full_like(freedom, _NORMAL)
    # Newton's steps: the probability is convex, and the quantile is above that of the normal
    # distribution, so each of them comes nearer from below.
    for _ in range(100):
        density = front * (1 + value**2 / freedom) ** (-(freedom + 1) / 2)
        step = (two_sided(value, freedom) - probability) / density
        value = value + step
        if np.all(np.abs(step) <= 1e-12 * value):
            break
    return value


def _incomplete_beta(a: np.ndarray, b: float, x: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """The regularised incomplete beta function I_x(a, b); `rest` is 1 - x with all its digits."""
    constant = np.array([math.lgamma(v + b) - math.lgamma(v) - math.lgamma(b) for v in a])
    with np.errstate(divide="ignore"):
        front = np.exp(constant + a * np.log(x) + b * np.log(rest))
    # There the fraction converges fast; elsewhere 1 - I_1-x(b, a) is the same.
    near = x < (a + 1) / (a + b + 2)
    first, second = np.where(near, a, b), np.where(near, b, a)
    part = front * _fraction(first, second, np.where(near, x, rest)) / first
    probability: np.ndarray = np.clip(np.where(near, part, 1 - part), 0.0, 1.0)
    return probability


def _fraction(a: np.ndarray, b: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The continued fraction of the incomplete beta function (NIST's DLMF 8.17.22), from its end.

    It takes about as many steps as the root of the larger of `a` and `b`.
    """
    value = np.ones_like(x)
    for m in range(50 + 3 * int(np.sqrt(np.max([a, b], initial=0.0))), 0, -1):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        value = 1 + even / (1 + odd / value)
    fraction: np.ndarray = 1 / (1 - (a + b) * x / (a + 1) / value)
    return fraction


@dataclass(frozen=True)
class Samples:
    """The scores of several rows in one column: their means, spreads and numbers, (rows,)."""

    mean: np.ndarray
    std: np.ndarray
    """Sample standard deviation; NaN for a single seed, and 0 where nothing is trained"""
    n: np.ndarray

    def __getitem__(self, rows: np.ndarray | list[int]) -> "Samples":
        return Samples(self.mean[rows], self.std[rows], self.n[rows])


def standard_errors(first: Samples, second: Samples) -> tuple[np.ndarray, np.ndarray]:
    """The standard errors of the differences of the means, and their degrees of freedom.

    The shapes are broadcast. Both are NaN where no row has a spread; the degrees of freedom also
    are where both are constants.
    """
    lone, other_lone = np.isnan(first.std), np.isnan(second.std)
    std = np.where(lone, second.std, first.std)
    other_std = np.where(other_lone, first.std, second.std)
    with np.errstate(divide="ignore", invalid="ignore"):
        square, other = std**2 / first.n, other_std**2 / second.n
        # One value, and a constant, tell nothing about the spread.
        parts = [
            np.where(spread & (n > 1), part**2 / (n - 1), 0.0)
            for spread, n, part in ((~lone, first.n, square), (~other_lone, second.n, other))
        ]
        freedom = (square + other) ** 2 / (parts[0] + parts[1])
        # Student's test has the degrees of freedom of the row that has a spread.
        freedom = np.where(lone, second.n - 1.0, np.where(other_lone, first.n - 1.0, freedom))
    unknown = (lone & (second.n == 1)) | (other_lone & (first.n == 1))
    errors = np.where(unknown, np.nan, np.sqrt(square + other))
    return errors, np.where(unknown, np.nan, freedom)


def p_values(first: Samples, second: Samples) -> np.ndarray:
    """The two-sided p-values for no difference of the means; the shapes are broadcast."""
    errors, freedom = standard_errors(first, second)
    difference = np.abs(first.mean - second.mean)
    with np.errstate(divide="ignore", invalid="ignore"):
        tested = two_sided(difference / errors, freedom)
    shown: np.ndarray = np.where(errors == 0, np.where(difference == 0, 1.0, 0.0), tested)
    return shown


def holm(values: np.ndarray) -> np.ndarray:
    """The p-values corrected after Holm (1979) along the last axis; NaN counts as no test."""
    order = np.argsort(values, axis=-1)  # NaN comes last
    tests = np.sum(~np.isnan(values), axis=-1, keepdims=True)
    factors = np.maximum(tests - np.arange(values.shape[-1]), 1)
    ordered = np.take_along_axis(values, order, -1) * factors
    corrected: np.ndarray = np.empty_like(ordered)
    rising = np.minimum(np.maximum.accumulate(ordered, axis=-1), 1.0)
    np.put_along_axis(corrected, order, rising, -1)
    return corrected


def best_cells(
    columns: Sequence[Samples], directions: Sequence[int], of_single_seeds: PairTest | None = None
) -> np.ndarray:
    """Which cells are the best of their column, or not significantly worse, (rows, columns).

    directions: for each column 1 where higher is better, -1 where lower is, and 0 where no value
    is better than another. of_single_seeds: the test of two rows that have one seed each, or train
    nothing. Of every column, NaN means are rows without a score.
    """
    scores = np.stack([each.mean for each in columns], axis=1) * np.array(directions)
    # A row that stands alone is not the best of several.
    ranked = (np.sum(~np.isnan(scores), axis=0) > 1) & (np.array(directions) != 0)
    best = [int(np.nanargmax(scores[:, at])) if ranked[at] else 0 for at in range(len(columns))]
    values = np.stack(
        [p_values(each, each[[row]]) for each, row in zip(columns, best, strict=True)], axis=1
    )
    top = scores == scores[best, np.arange(len(columns))]
    constant = np.stack([(each.n == 1) & (each.std == 0) for each in columns], axis=1)
    constants = constant & constant[best, np.arange(len(columns))]
    # A cell is not compared with itself, what is not ranked is no test, and two constants differ
    # by their test sentences, of which the seeds tell nothing.
    values[top | ~ranked | constants] = np.nan
    if of_single_seeds is not None:
        for row, at in np.argwhere(np.isnan(values) & ~top & ranked & ~np.isnan(scores)):
            values[row, at] = of_single_seeds(int(row), best[at], int(at))
    shown: np.ndarray = (top | (holm(values) > SIGNIFICANT)) & ranked & ~np.isnan(scores)
    return shown


@dataclass(frozen=True)
class Prediction:
    """The prediction of our n runs about one more run, where their scores are normal values.

    The score of one more run, minus the mean of ours, divided by std * sqrt(1 + 1/n), then has
    Student's t distribution with n - 1 degrees of freedom.
    """

    runs: Score
    """The score of at least two trained trials"""

    @property
    def interval(self) -> tuple[float, float]:
        """The two ends between which one more run is with a probability of 95 %."""
        reach = _reach(self.runs.n - 1) * self._spread
        return self.runs.mean - reach, self.runs.mean + reach

    def agrees(self, published: float) -> bool:
        """Whether a published number lies in the interval."""
        low, high = self.interval
        # A mean has digits behind those that a paper prints, where equal numbers may differ.
        return low - 1e-9 <= published <= high + 1e-9

    def p_value(self, published: float) -> float:
        """The probability that one more run is at least as far from our mean as `published`."""
        if not self._spread:
            return float(math.isclose(self.runs.mean, published))
        t = np.array(abs(published - self.runs.mean) / self._spread)
        return float(two_sided(t, np.array(self.runs.n - 1.0)))

    @property
    def _spread(self) -> float:
        return (self.runs.std or 0.0) * math.sqrt(1 + 1 / self.runs.n)


@cache
def _reach(freedom: int) -> float:
    """Standard errors between the mean of Student's t and either end of its 95 % interval."""
    return float(quantile(freedom))


def prediction(score: Score | None) -> Prediction | None:
    """The prediction of runs; None for a single one, and where nothing is trained."""
    has_spread = score is not None and score.std is not None and score.trained
    return Prediction(score) if score and has_spread else None
