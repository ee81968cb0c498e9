"""Geometry on the unit sphere: alignment, uniformity, cosines by gold score, anisotropy.

The protocol is that of diffcse.md, section 6.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from harness.data.senteval import archive
from harness.data.sts_pairs import LOADERS, Pairs
from harness.errors import TrialFailure
from harness.evaluation.correlation import first_rows, pair_cosines, unit_rows
from harness.evaluation.scores import Scores
from harness.evaluation.suites import register

ROWS_PER_BLOCK = 512
"""Rows of a Gram matrix that are held at once: 512 x 2,758 float32 numbers are 5.6 MB"""
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
"""The quantiles of the cosines that are reported of each group"""
BOUNDARIES = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0)
"""The gold scores at which a group of pairs begins, and the end of the last group"""


@dataclass(frozen=True)
class GoldGroup:
    """The pairs with low <= gold < high; the last group also has the pairs with gold = high."""

    low: float
    high: float
    cosines: np.ndarray
    """(pairs of the group,)"""


def alignment(cosines: np.ndarray) -> float:
    """The mean squared distance of positive pairs, 0 to 4 (Wang and Isola 2020, with alpha = 2).

    A lower value means that they are closer. cosines: (positive pairs,); of unit vectors the
    squared distance is 2 - 2 cos. Raises TrialFailure when there is no positive pair.
    """
    if len(cosines) == 0:
        raise TrialFailure("no pair has a gold score above 4: alignment is not defined")
    return float(2 - 2 * cosines.mean())


def uniformity(vectors: np.ndarray) -> float:
    """Uniformity: how evenly the directions are spread (Wang and Isola 2020, with t = 2).

    -8 to 0; a lower value means more evenly. vectors: (n, hidden), n >= 2. It is the logarithm of
    the mean of exp(-2 ||f(x) - f(y)||^2) over all unordered pairs of rows of unit length. Raises
    TrialFailure when the rows are constant, zero or not finite.
    """
    # Of unit vectors exp(-2 ||u - v||^2) = exp(4 u v) / exp(4), so the Gram matrix is enough. Only
    # its upper half is computed, block by block: no tensor has (n, n, hidden) numbers.
    doubled = 2 * _directions(vectors).astype(np.float32)
    total = 0.0
    for start in range(0, len(doubled), ROWS_PER_BLOCK):
        kernel = doubled[start : start + ROWS_PER_BLOCK] @ doubled[start:].T
        np.exp(kernel, out=kernel)
        square, right = kernel[:, : len(kernel)], kernel[:, len(kernel) :]
        # The square on the diagonal has every pair twice, and every row with itself.
        total += right.sum(dtype=np.float64)
        total += (square.sum(dtype=np.float64) - np.trace(square, dtype=np.float64)) / 2
    return float(np.log(2 * total / (len(doubled) * (len(doubled) - 1))) - 4)


def mean_cosine(vectors: np.ndarray) -> float:
    """The mean cosine of two different rows (n, hidden), a measure of anisotropy.

    -1 to 1; 0 when no direction is preferred. Ethayarajh (2019) estimates it from samples of words
    in their contexts. Raises TrialFailure when the rows are constant, zero or not finite.
    """
    units = _directions(vectors)
    # No sample: the squared length of the sum of all unit vectors holds the cosine of every pair.
    total = units.sum(axis=0)
    return float((total @ total - len(units)) / (len(units) * (len(units) - 1)))


def first_component(vectors: np.ndarray) -> float:
    """The share of the variance of rows (n, hidden) along their first principal component.

    0 to 1; 1 / hidden when no direction is preferred. Ethayarajh (2019) calls it the maximum
    explainable variance. The rows are centred, as in Mu and Viswanath (2018). Raises TrialFailure
    when the rows are constant, zero or not finite.
    """
    _directions(vectors)  # for its checks
    centred = np.asarray(vectors, np.float64)
    centred = centred - centred.mean(axis=0)
    # Eigenvalues come in ascending order, and their common factor n cancels in the share.
    variances = np.linalg.eigvalsh(centred.T @ centred)
    return float(variances[-1] / variances.sum())


def cosines_by_gold(cosines: np.ndarray, gold: np.ndarray) -> tuple[GoldGroup, ...]:
    """Group the cosines (pairs,) by gold score (pairs,), 0-1 to 4-5 (diffcse.md, section 6)."""
    last = BOUNDARIES[-1]
    return tuple(
        GoldGroup(
            low, high, cosines[(gold >= low) & ((gold < high) | (high == last) & (gold == last))]
        )
        for low, high in pairwise(BOUNDARIES)
    )


def _directions(vectors: np.ndarray) -> np.ndarray:
    """Rows of unit length. Raises TrialFailure when they are constant, zero or not finite."""
    units = unit_rows(vectors)
    zeros = int((units == 0).all(axis=1).sum())
    if zeros:
        raise TrialFailure(f"{zeros} of {len(units)} embeddings are zero: they have no direction")
    return units


def figures(task: str, pairs: Pairs, vectors: np.ndarray) -> Scores:
    """The scores of the suite `geometry` from the vectors of `pairs.texts` (diffcse.md, section 6).

    Pairs with gold > 4 are positive, and the other figures are over all rows. Details are the same
    figures with gold >= 4 and over distinct sentences, and of each group of gold scores the number
    of pairs and the mean, standard deviation and quantiles of their cosines. Raises TrialFailure
    when embeddings are constant, zero or not finite.
    """
    cosines = pair_cosines(vectors[: len(pairs)], vectors[len(pairs) :])
    metrics = {"alignment": alignment(cosines[pairs.gold > 4]), **_spread(vectors)}
    details = {f"{task}/gold>=4/alignment": alignment(cosines[pairs.gold >= 4])}
    distinct = _spread(vectors[first_rows(pairs.texts)])
    details |= {f"{task}/distinct/{name}": value for name, value in distinct.items()}
    # A group of one pair has no standard deviation.
    for group in cosines_by_gold(cosines, pairs.gold):
        if len(group.cosines) > 1:
            name = f"{task}/cosines-{group.low:.0f}-{group.high:.0f}"
            details |= {
                f"{name}/pairs": float(len(group.cosines)),
                f"{name}/mean": float(group.cosines.mean()),
                f"{name}/std": float(group.cosines.std(ddof=1)),
            }
            values = np.quantile(group.cosines, QUANTILES)
            details |= {
                f"{name}/q{round(100 * quantile)}": float(value)
                for quantile, value in zip(QUANTILES, values, strict=True)
            }
    return Scores(metrics, details)


def _spread(vectors: np.ndarray) -> dict[str, float]:
    """The figures that are over rows (n, hidden), whatever pairs they are of."""
    return {
        "uniformity": uniformity(vectors),
        "mean-cosine": mean_cosine(vectors),
        "first-component": first_component(vectors),
    }


geometry_suite = register("geometry", {"geometry": LOADERS["stsb"]}, lambda: [archive()])(figures)
