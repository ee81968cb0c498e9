"""Which scores differ by more than their seeds explain.

Two rows are compared by Welch's t-test over their seeds. The p-values of a row over the columns of
a table, and those of all pairs of a column, are corrected after Holm. Where a row has one seed, the
spread of the other stands for both, which is Student's test with one value on a side. A row that
does not train has no seeds and no spread: it is a constant. Two rows of one seed each have no
spread, nor have one seed and a constant, so their p-value is NaN, unless the caller knows another
test.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from harness.report.statistics.students_t import quantile, two_sided

SIGNIFICANT = 0.05
"""A difference is significant where its corrected p-value is at most this"""


@dataclass(frozen=True)
class Samples:
    """The scores of several rows in one column: their means, spreads and numbers, (rows,)."""

    mean: np.ndarray
    std: np.ndarray
    """Sample standard deviation; NaN for a single seed, and 0 where nothing is trained"""
    n: np.ndarray

    def __getitem__(self, rows: np.ndarray | list[int]) -> "Samples":
        return Samples(self.mean[rows], self.std[rows], self.n[rows])


PairTest = Callable[[int, int, int], float]
"""The p-value for no difference between two rows in a column; NaN where it is unknown"""


def agrees(mean: float, std: float | None, n: int, published: float) -> bool | None:
    """Whether a published number lies within the spread of our seeds.

    It does where it lies in the 95 % prediction interval for the score of one more seed,
    mean ± t(n - 1) * std * sqrt(1 + 1/n). None for a single seed, which has no spread.
    """
    if std is None:
        return None
    low, high = prediction_interval(mean, std, n)
    # A mean has digits behind those that a paper prints, where equal numbers may differ.
    return low - 1e-9 <= published <= high + 1e-9


def prediction_interval(mean: float, std: float, n: int) -> tuple[float, float]:
    """The two ends between which the score of one more seed is with a probability of 95 %."""
    reach = _reach(n - 1) * std * math.sqrt(1 + 1 / n)
    return mean - reach, mean + reach


@cache
def _reach(freedom: int) -> float:
    """Standard errors between the mean of Student's t and either end of its 95 % interval."""
    return float(quantile(freedom))


def p_values(first: Samples, second: Samples) -> np.ndarray:
    """The two-sided p-values for no difference of the means; the shapes are broadcast."""
    lone, other_lone = np.isnan(first.std), np.isnan(second.std)
    std = np.where(lone, second.std, first.std)
    other_std = np.where(other_lone, first.std, second.std)
    with np.errstate(divide="ignore", invalid="ignore"):
        square, other = std**2 / first.n, other_std**2 / second.n
        # One value, and a constant, tell nothing about the spread.
        parts = [
            np.where(known & (n > 1), part**2 / (n - 1), 0.0)
            for known, n, part in ((~lone, first.n, square), (~other_lone, second.n, other))
        ]
        t = np.abs(first.mean - second.mean) / np.sqrt(square + other)
        freedom = (square + other) ** 2 / (parts[0] + parts[1])
        # Student's test has the degrees of freedom of the row that has a spread.
        freedom = np.where(lone, second.n - 1.0, np.where(other_lone, first.n - 1.0, freedom))
        found = two_sided(t, freedom)
    constants = square + other == 0
    equal = np.where(first.mean == second.mean, 1.0, 0.0)
    shown: np.ndarray = np.where(constants, equal, found)
    unknown = (lone & (second.n == 1)) | (other_lone & (first.n == 1))
    return np.where(unknown, np.nan, shown)


def holm(values: np.ndarray, axis: int = -1) -> np.ndarray:
    """The p-values corrected after Holm (1979) along an axis; NaN counts as no test."""
    moved = np.moveaxis(values, axis, -1)
    order = np.argsort(moved, axis=-1)  # NaN comes last
    tests = np.sum(~np.isnan(moved), axis=-1, keepdims=True)
    factors = np.maximum(tests - np.arange(moved.shape[-1]), 1)
    ordered = np.take_along_axis(moved, order, -1) * factors
    rising = np.minimum(np.maximum.accumulate(ordered, axis=-1), 1.0)
    corrected = np.empty_like(rising)
    np.put_along_axis(corrected, order, rising, -1)
    return np.moveaxis(corrected, -1, axis)


def best_cells(
    columns: Sequence[Samples], directions: Sequence[int], of_single_seeds: PairTest | None = None
) -> np.ndarray:
    """Which cells are the best of their column, or not significantly worse, (rows, columns).

    directions: for each column 1 where higher is better, -1 where lower is, and 0 where no value
    is better than another. of_single_seeds: the test of two rows that have one seed each. Of every
    column, NaN means are rows without a score.
    """
    scores = np.stack([each.mean for each in columns], axis=1) * np.array(directions)
    # A row that stands alone is not the best of several.
    ranked = (np.sum(~np.isnan(scores), axis=0) > 1) & (np.array(directions) != 0)
    best = [int(np.nanargmax(scores[:, at])) if ranked[at] else 0 for at in range(len(columns))]
    values = np.stack(
        [p_values(each, each[[row]]) for each, row in zip(columns, best, strict=True)], axis=1
    )
    top = scores == scores[best, np.arange(len(columns))]
    # A cell is not compared with itself, and what is not ranked is no test.
    values[top | ~ranked] = np.nan
    if of_single_seeds is not None:
        for row, at in np.argwhere(np.isnan(values) & ~top & ranked & ~np.isnan(scores)):
            values[row, at] = of_single_seeds(int(row), best[at], int(at))
    shown: np.ndarray = (top | (holm(values) > SIGNIFICANT)) & ranked & ~np.isnan(scores)
    return shown


def groups(samples: Samples, direction: int) -> np.ndarray:
    """The group of each row, 1 for the best: groups of rows that cannot be told apart.

    Between two groups, every row of the one differs significantly from every row of the other
    (Holm over all pairs). These are the clusters of the WMT shared tasks.
    """
    order = np.argsort(-direction * samples.mean, kind="stable")
    ordered, rows = samples[order], len(samples.mean)
    upper = np.triu_indices(rows, 1)
    differs = np.ones((rows, rows), bool)
    differs[upper] = holm(p_values(ordered[upper[0]], ordered[upper[1]])) <= SIGNIFICANT
    borders = [differs[:end, end:].all() for end in range(1, rows)]
    found = np.empty(rows, int)
    found[order] = 1 + np.cumsum([False, *borders])
    return found
