"""Uncertainty of a Spearman correlation: bootstrap over sentence pairs, all resamples at once.

A resample is how often each pair is drawn. Average ranks within it follow from cumulative sums of these counts in the
order of the values, so that values are sorted once and not for every resample (exact, ties included). Pairs are put in
an order of their own before they are drawn: the order of a file changes nothing.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from harness.errors import TrialFailure
from harness.evaluation.correlation import check_defined

RESAMPLES = 1000
LEVEL = 95.0
"""Percent of the resamples inside an interval"""
NORMAL = 1.959964
"""Standard errors on either side of the mean that hold LEVEL percent of a normal distribution"""
COUNTS_PER_BLOCK = 65_536
"""Counts held at once, to stay in a core's cache"""


@dataclass(frozen=True)
class Uncertainty:
    """Of a Spearman correlation x100."""

    standard_error: float
    low: float
    """Percentile interval"""
    high: float


@dataclass(frozen=True)
class PairedComparison:
    """Of two systems on the same pairs: the first one's Spearman x100 minus the second one's."""

    difference: float
    uncertainty: Uncertainty
    p_value: float
    """Two-sided, for no difference; at least 1 / (resamples + 1)"""


def uncertainty(
    cosines: np.ndarray, gold: np.ndarray, *, seed: int = 0, resamples: int = RESAMPLES
) -> Uncertainty:
    """Standard error and interval of the Spearman correlation of cosines (n,) with gold (n,).

    Raises TrialFailure where no correlation is defined.
    """
    return uncertainty_of_replicates(replicates([cosines], gold, seed=seed, resamples=resamples)[0])


def paired_comparison(observed: float, differences: np.ndarray) -> PairedComparison:
    """Whether two systems differ: the observed difference of their scores, and that in every resample (resamples,).

    The p-value is the share of resamples whose difference is as far from the observed one as that is from 0
    (Berg-Kirkpatrick, Burkett and Klein 2012, two-sided).
    """
    as_far = int((np.abs(differences - observed) >= abs(observed)).sum())
    return PairedComparison(
        observed, uncertainty_of_replicates(differences), (as_far + 1) / (len(differences) + 1)
    )


def uncertainty_of_replicates(values: np.ndarray) -> Uncertainty:
    """Of replicates (resamples,), which may be sums or differences of several sets' replicates."""
    outside = (100 - LEVEL) / 2
    low, high = np.percentile(values, [outside, 100 - outside]).tolist()
    return Uncertainty(float(values.std(ddof=1)), low, high)


def of_mean(mean: float, parts: Sequence[Uncertainty]) -> Uncertainty:
    """Of the mean of scores over different pairs, taken as independent; a normal interval."""
    error = math.sqrt(sum(part.standard_error**2 for part in parts)) / len(parts)
    half = NORMAL * error
    return Uncertainty(error, mean - half, mean + half)


def replicates(
    systems: list[np.ndarray], gold: np.ndarray, *, seed: int = 0, resamples: int = RESAMPLES
) -> np.ndarray:
    """Spearman x100 of each system's cosines (n,) with gold (n,) in every resample, (systems, resamples).

    All systems see the same resamples. Raises TrialFailure where no correlation is defined.
    """
    for cosines in systems:
        check_defined(cosines, gold)
    order = np.lexsort((np.sum(systems, axis=0), gold))
    ranks = [_Ranks(values[order]) for values in (gold, *systems)]
    return np.concatenate(
        [_correlations(counts, ranks) for counts in _resamples(len(gold), seed, resamples)], axis=1
    )


def _resamples(size: int, seed: int, resamples: int) -> Iterator[np.ndarray]:
    """Blocks of (resamples, size): how often each pair is drawn."""
    generator = np.random.default_rng(seed)
    rows = max(1, COUNTS_PER_BLOCK // size)
    for start in range(0, resamples, rows):
        count = min(rows, resamples - start)
        drawn = generator.integers(0, size, (count, size)) + np.arange(count)[:, None] * size
        yield np.bincount(drawn.ravel(), minlength=count * size).reshape(count, size)


def _correlations(counts: np.ndarray, ranks: list["_Ranks"]) -> np.ndarray:
    """(systems, resamples): Pearson x100 of the ranks; the first ranks are those of the gold scores."""
    gold, *systems = (rank(counts) for rank in ranks)
    weighted = counts * gold
    gold_square = np.einsum("rn,rn->r", weighted, gold)
    found = []
    for system in systems:
        squares = gold_square * np.einsum("rn,rn,rn->r", counts, system, system)
        if not squares.all():
            raise TrialFailure(
                f"{counts.shape[1]} pairs are too few for a bootstrap: a resample has no correlation"
            )
        found.append(100 * np.einsum("rn,rn->r", weighted, system) / np.sqrt(squares))
    return np.stack(found)


class _Ranks:
    """Average ranks of n values within any resample of them."""

    def __init__(self, values: np.ndarray) -> None:
        self.order = np.argsort(values, kind="stable")
        ordered = values[self.order]
        new = np.concatenate([[True], ordered[1:] != ordered[:-1]])
        self.starts = np.flatnonzero(new)
        self.group = np.empty(len(values), np.int64)
        self.group[self.order] = np.cumsum(new) - 1

    def __call__(self, counts: np.ndarray) -> np.ndarray:
        """(resamples, n) counts -> (resamples, n) ranks minus their mean."""
        groups = np.add.reduceat(counts[:, self.order], self.starts, axis=1)
        mean_ranks = np.cumsum(groups, axis=1) - (groups - 1) / 2
        centred = mean_ranks - (counts.shape[1] + 1) / 2
        ranks: np.ndarray = centred[:, self.group]
        return ranks
