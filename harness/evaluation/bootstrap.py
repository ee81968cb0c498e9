"""The uncertainty of a score: a bootstrap over sentence pairs, or over queries.

A resample is written as the counts of how often each pair is drawn. The average ranks inside it
follow from cumulative sums of these counts in the order of the values. So the values are sorted
once, where scipy would sort every resample, and the result is exact, ties included.
"""

from collections.abc import Iterator

import numpy as np

from harness.evaluation.correlation import check_defined
from harness.evaluation.scores import Uncertainty

RESAMPLES = 1000
LEVEL = 95.0
"""Percent of the resamples that lie inside an interval"""
COUNTS_PER_BLOCK = 65_536
"""Counts that are held at once, so that they stay in the cache of a core"""


def uncertainty(
    cosines: np.ndarray, gold: np.ndarray, *, seed: int = 0, resamples: int = RESAMPLES
) -> Uncertainty | None:
    """The standard error and interval of the Spearman correlation of cosines with gold scores.

    cosines, gold: (pairs,). None where the pairs are so few that a resample has no correlation.
    Raises TrialFailure where no correlation is defined.
    """
    values = replicates([cosines], gold, seed=seed, resamples=resamples)[0]
    return None if np.isnan(values).any() else spread(values)


def spread(values: np.ndarray) -> Uncertainty:
    """The standard error and interval of a score, from its values in resamples, (resamples,)."""
    outside = (100 - LEVEL) / 2
    low, high = np.percentile(values, [outside, 100 - outside]).tolist()
    return Uncertainty(float(values.std(ddof=1)), low, high)


def replicates(
    systems: list[np.ndarray], gold: np.ndarray, *, seed: int = 0, resamples: int = RESAMPLES
) -> np.ndarray:
    """Spearman x100 of each system in every resample, (systems, resamples).

    systems: the cosines of each system, (pairs,). gold: (pairs,). All systems see the same
    resamples. NaN where all values of a resample are equal, as it happens with few pairs. Raises
    TrialFailure where no correlation is defined.
    """
    for cosines in systems:
        check_defined(cosines, gold)
    # An order of their own, so that the order of a file does not change the result.
    order = np.lexsort((np.sum(systems, axis=0), gold))
    ranks = [_Ranks(values[order]) for values in (gold, *systems)]
    return np.concatenate(
        [_correlations(counts, ranks) for counts in _resamples(len(gold), seed, resamples)], axis=1
    )


def mean_replicates(values: np.ndarray, *, seed: int = 0, resamples: int = RESAMPLES) -> np.ndarray:
    """The mean x100 of each row in every resample of the columns, (rows, resamples).

    values: (rows, queries). All rows see the same resamples.
    """
    size = values.shape[1]
    sums = [values @ counts.T for counts in _resamples(size, seed, resamples)]
    means: np.ndarray = 100 / size * np.concatenate(sums, axis=1)
    return means


def _resamples(size: int, seed: int, resamples: int) -> Iterator[np.ndarray]:
    """Counts of how often each pair is drawn: blocks of (resamples, size)."""
    generator = np.random.default_rng(seed)
    rows = max(1, COUNTS_PER_BLOCK // size)
    for start in range(0, resamples, rows):
        count = min(rows, resamples - start)
        # Every row gets numbers of its own, so that one call counts the draws of all rows.
        drawn = generator.integers(0, size, (count, size)) + np.arange(count)[:, None] * size
        yield np.bincount(drawn.ravel(), minlength=count * size).reshape(count, size)


def _correlations(counts: np.ndarray, ranks: list["_Ranks"]) -> np.ndarray:
    """The correlations x100 of each system with the gold scores, (systems, resamples).

    counts: (resamples, pairs). `ranks`: those of the gold scores, then those of each system.
    """
    gold, *systems = (rank(counts) for rank in ranks)
    weighted = counts * gold
    gold_square = np.einsum("rn,rn->r", weighted, gold)
    correlations = []
    for system in systems:
        squares = gold_square * np.einsum("rn,rn,rn->r", counts, system, system)
        roots = np.sqrt(np.where(squares == 0, np.nan, squares))
        correlations.append(100 * np.einsum("rn,rn->r", weighted, system) / roots)
    return np.stack(correlations)


class _Ranks:
    """The average ranks of n values in any resample of them."""

    def __init__(self, values: np.ndarray) -> None:
        self.order = np.argsort(values, kind="stable")
        ordered = values[self.order]
        # Equal values are one group, whose members share the mean of their ranks.
        new = np.concatenate([[True], ordered[1:] != ordered[:-1]])
        self.starts = np.flatnonzero(new)
        self.group = np.empty(len(values), np.int64)
        self.group[self.order] = np.cumsum(new) - 1

    def __call__(self, counts: np.ndarray) -> np.ndarray:
        """The ranks minus their mean, (resamples, n), from counts (resamples, n)."""
        # The last rank of a group is its cumulative sum, and its first one is groups - 1 below.
        groups = np.add.reduceat(counts[:, self.order], self.starts, axis=1)
        mean_ranks = np.cumsum(groups, axis=1) - (groups - 1) / 2
        centred = mean_ranks - (counts.shape[1] + 1) / 2
        ranks: np.ndarray = centred[:, self.group]
        return ranks
