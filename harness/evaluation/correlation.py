"""Correlations of cosines with gold similarities, x100, with SentEval's ways of putting a year's subsets together."""

from dataclasses import dataclass

import numpy as np
from scipy.stats import pearsonr, spearmanr

from harness.data.sts_pairs import Pairs
from harness.errors import TrialFailure
from harness.evaluation.cosines import pair_cosines

EQUAL = 1e-12
"""Cosines of vectors that differ by the rounding of float32 alone are this near to 1"""


@dataclass(frozen=True)
class Correlation:
    """-100 to 100."""

    pearson: float
    spearman: float


@dataclass(frozen=True)
class StsScores:
    """The correlations of a test set."""

    aggregated: dict[str, Correlation]
    """`all`: over all pairs; where there are subsets also `mean` and `wmean` of theirs, the latter by their sizes"""
    subsets: dict[str, Correlation]


def sts_scores(first: np.ndarray, second: np.ndarray, pairs: Pairs) -> StsScores:
    """The scores of embeddings (pairs, hidden) of the first and of the second sentences (SentEval's STSEval).

    Raises TrialFailure when they are constant or not finite, or all cosines of a subset are equal.
    """
    cosines = pair_cosines(first, second)
    aggregated = {"all": correlation(cosines, pairs.gold)}
    subsets = {
        name: correlation(cosines[part], pairs.gold[part]) for name, part in pairs.parts().items()
    }
    if subsets:
        found = np.asarray([(subset.pearson, subset.spearman) for subset in subsets.values()])
        sizes = list(pairs.subsets.values())
        aggregated["mean"] = Correlation(*found.mean(axis=0).tolist())
        aggregated["wmean"] = Correlation(*np.average(found, axis=0, weights=sizes).tolist())
    return StsScores(aggregated, subsets)


def correlation(cosines: np.ndarray, gold: np.ndarray) -> Correlation:
    """Pearson and Spearman of cosines (n,) with gold (n,). Raises TrialFailure where they are not defined."""
    check_defined(cosines, gold)
    return Correlation(
        pearson=float(pearsonr(cosines, gold).statistic * 100),
        spearman=float(spearmanr(cosines, gold).statistic * 100),
    )


def spearman(first: np.ndarray, second: np.ndarray, gold: np.ndarray) -> float:
    """Spearman x100 of the cosines of paired rows, (n, hidden) each, against gold (n,).

    Raises TrialFailure when the rows are not finite or all cosines are equal (a constant embedding has no rank
    correlation).
    """
    cosines = pair_cosines(first, second)
    check_defined(cosines, gold)
    return float(spearmanr(cosines, gold).statistic * 100)


def check_defined(cosines: np.ndarray, gold: np.ndarray) -> None:
    """Raises TrialFailure when cosines or gold scores are not finite or all equal: no correlation is defined then."""
    if not (np.isfinite(cosines).all() and np.isfinite(gold).all()):
        raise TrialFailure("similarities are not finite")
    if np.ptp(cosines) <= EQUAL:
        raise TrialFailure("all sentence pairs have the same similarity: the embedding is constant")
    if np.ptp(gold) == 0:
        raise TrialFailure("all sentence pairs have the same gold score: no correlation is defined")
