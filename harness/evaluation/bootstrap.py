"""The uncertainty of a Spearman correlation: a bootstrap over sentence pairs.

A resample is written as the counts of how often each pair is drawn. The average ranks inside it
follow from cumulative sums of these counts in the order of the values. So the values are sorted
once, where scipy would sort every resample, and the result is exact, ties included.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from harness.errors import TrialFailure
from harness.evaluation.correlation import check_defined
from harness.evaluation.scores import Uncertainty

RESAMPLES = 1000
LEVEL = 95.0
"""Percent of the resamples that lie inside an interval"""
NORMAL = 1.959964
"""Standard errors between the mean of a normal distribution and either end of its LEVEL interval"""
COUNTS_PER_BLOCK = 65_536
"""Counts that are held at once, so that they stay in the cache of a core"""


@dataclass(frozen=True)
class PairedComparison:
    """How two systems differ on the same pairs."""

    difference: float
    """Spearman x100 of the first system minus that of the second"""
    uncertainty: Uncertainty
    """The uncertainty of the difference"""
    p_value: float
    """Two-sided, under the hypothesis of no difference; at least 1 / (resamples + 1)"""


def uncertainty(
    cosines: np.ndarray, gold: np.ndarray, *, seed: int = 0, resamples: int = RESAMPLES
) -> Uncertainty:
    """The standard error and interval of the Spearman correlation of cosines with gold scores.

    cosines, gold: (pairs,). Raises TrialFailure where no correlation is defined.
    """
    return uncertainty_of_replicates(replicates([cosines], gold, seed=seed, resamples=resamples)[0])


def paired_comparison(observed: float, differences: np.ndarray) -> PairedComparison:
    """Compare two systems by the difference of their scores.

    observed: the difference on all pairs. differences: (resamples,), the difference in every
    resample. The p-value is the share of resamples whose difference is as far from the observed one
    as the observed one is from 0 (Berg-Kirkpatrick, Burkett and Klein 2012, two-sided).
    """
    # Resamples vary around the observed difference, so their distance from it stands for how far a
    # difference is from 0 by chance. With one added, no p-value is 0.
    as_far = int((np.abs(differences - observed) >= abs(observed)).sum())
    return PairedComparison(
        observed, uncertainty_of_replicates(differences), (as_far + 1) / (len(differences) + 1)
    )


def uncertainty_of_replicates(values: np.ndarray) -> Uncertainty:
    """The uncertainty of a score whose values in the resamples are given, (resamples,).

    They may be sums or differences of the replicates of several sets.
    """
    outside = (100 - LEVEL) / 2
    low, high = np.percentile(values, [outside, 100 - outside]).tolist()
    return Uncertainty(float(values.std(ddof=1)), low, high)


def of_mean(mean: float, parts: Sequence[Uncertainty]) -> Uncertainty:
    """The uncertainty of a mean of scores, from the uncertainty of each.

    The scores are over different pairs and count as independent. The interval is a normal one.
    """
    # The variances of independent scores add up.
    error = math.sqrt(sum(part.standard_error**2 for part in parts)) / len(parts)
    half = NORMAL * error
    return Uncertainty(error, mean - half, mean + half)


def replicates(
    systems: list[np.ndarray], gold: np.ndarray, *, seed: int = 0, resamples: int = RESAMPLES
) -> np.ndarray:
    """Spearman x100 of each system in every resample, (systems, resamples).

    systems: the cosines of each system, (pairs,). gold: (pairs,). All systems see the same
    resamples. Raises TrialFailure where no correlation is defined.
    """
    for cosines in systems:
        check_defined(cosines, gold)
    # An order of their own, so that the order of a file does not change the result.
    order = np.lexsort((np.sum(systems, axis=0), gold))
    ranks = [_Ranks(values[order]) for values in (gold, *systems)]
    return np.concatenate(
        [_correlations(counts, ranks) for counts in _resamples(len(gold), seed, resamples)], axis=1
    )


def _resamples(size: int, seed: int, resamples: int) -> Iterator[np.ndarray]:
    """How often each pair is drawn: blocks of (resamples, size)."""
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
    found = []
    for system in systems:
        squares = gold_square * np.einsum("rn,rn,rn->r", counts, system, system)
        if not squares.all():
            raise TrialFailure(
                f"{counts.shape[1]} pairs are too few for a bootstrap: in a resample all values "
                f"are equal, so it has no correlation"
            )
        found.append(100 * np.einsum("rn,rn->r", weighted, system) / np.sqrt(squares))
    return np.stack(found)


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
