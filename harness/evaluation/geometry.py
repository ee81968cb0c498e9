"""How embeddings lie on the unit sphere: alignment, uniformity, cosines by gold score, anisotropy."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from harness.data.senteval import archive
from harness.data.sts_pairs import LOADERS, Pairs
from harness.errors import TrialFailure
from harness.evaluation.cosines import first_rows, pair_cosines, unit_rows
from harness.evaluation.suites import Scores, register

ROWS_PER_BLOCK = 512
"""Rows of a Gram matrix held at once: a block of 512 x 2,758 float32 is 5.6 MB"""
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
BOUNDARIES = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0)


@dataclass(frozen=True)
class GoldGroup:
    """The pairs with low <= gold < high; the last group has high itself too."""

    low: float
    high: float
    cosines: np.ndarray


@dataclass(frozen=True)
class Geometry:
    """Of a set of pairs."""

    alignment: float
    """0 to 4, lower is closer"""
    uniformity: float
    """-8 to 0, lower is more uniform"""
    mean_cosine: float
    """-1 to 1; 0 for directions without preference"""
    first_component: float
    """0 to 1; 1 / hidden for a sphere"""
    groups: tuple[GoldGroup, ...]


def geometry(
    first: np.ndarray,
    second: np.ndarray,
    pairs: Pairs,
    *,
    inclusive: bool = False,
    distinct: bool = False,
) -> Geometry:
    """Everything about embeddings (pairs, hidden) of the first and of the second sentences; diffcse.md, section 6.

    `inclusive`: pairs with gold >= 4, not > 4, are positive. `distinct`: uniformity and anisotropy are over distinct
    sentences, not over all rows. Raises TrialFailure when embeddings are constant, zero or not finite.
    """
    cosines = pair_cosines(first, second)
    positive = pairs.gold >= 4 if inclusive else pairs.gold > 4
    vectors = np.concatenate([first, second])
    if distinct:
        vectors = vectors[first_rows(pairs.texts)]
    return Geometry(
        alignment=alignment(cosines[positive]),
        uniformity=uniformity(vectors),
        mean_cosine=mean_cosine(vectors),
        first_component=first_component(vectors),
        groups=cosines_by_gold(cosines, pairs.gold),
    )


def alignment(cosines: np.ndarray) -> float:
    """Mean squared distance of positive pairs of unit vectors, 2 - 2 cos (Wang and Isola 2020, alpha = 2).

    cosines: (positive pairs,). Raises TrialFailure when there is none.
    """
    if len(cosines) == 0:
        raise TrialFailure("no pair has a gold score above 4: alignment is not defined")
    return float(2 - 2 * cosines.mean())


def uniformity(vectors: np.ndarray) -> float:
    """log of the mean of exp(-2 ||f(x) - f(y)||^2) over all unordered pairs of rows (n, hidden), n >= 2, made unit
    length (Wang and Isola 2020, t = 2).

    By blocks of the upper half of the Gram matrix, since exp(-2 ||u - v||^2) = exp(4 u v) / exp(4) for unit vectors.
    Raises TrialFailure when the rows are constant, zero or not finite.
    """
    doubled = 2 * _directions(vectors).astype(np.float32)
    total = 0.0
    for start in range(0, len(doubled), ROWS_PER_BLOCK):
        kernel = doubled[start : start + ROWS_PER_BLOCK] @ doubled[start:].T
        np.exp(kernel, out=kernel)
        square, right = kernel[:, : len(kernel)], kernel[:, len(kernel) :]
        total += right.sum(dtype=np.float64)
        total += (square.sum(dtype=np.float64) - np.trace(square, dtype=np.float64)) / 2
    return float(np.log(2 * total / (len(doubled) * (len(doubled) - 1))) - 4)


def mean_cosine(vectors: np.ndarray) -> float:
    """Anisotropy as the expected cosine of two random rows (n, hidden) (Ethayarajh 2019, for words in contexts).

    Not a sample: the squared length of the sum of all unit vectors holds every pair.
    """
    units = _directions(vectors)
    total = units.sum(axis=0)
    return float((total @ total - len(units)) / (len(units) * (len(units) - 1)))


def first_component(vectors: np.ndarray) -> float:
    """Share of the variance of rows (n, hidden) along their first principal component (Ethayarajh 2019's maximum
    explainable variance; of centred rows, as Mu and Viswanath 2018 do)."""
    _directions(vectors)
    centred = np.asarray(vectors, np.float64)
    centred = centred - centred.mean(axis=0)
    variances = np.linalg.eigvalsh(centred.T @ centred)
    return float(variances[-1] / variances.sum())


def cosines_by_gold(cosines: np.ndarray, gold: np.ndarray) -> tuple[GoldGroup, ...]:
    """The cosines (pairs,) in five groups by gold score, 0-1 to 4-5 (DiffCSE's Figure 2)."""
    last = BOUNDARIES[-1]
    return tuple(
        GoldGroup(
            low, high, cosines[(gold >= low) & ((gold < high) | (high == last) & (gold == last))]
        )
        for low, high in pairwise(BOUNDARIES)
    )


def _directions(vectors: np.ndarray) -> np.ndarray:
    units = unit_rows(vectors)
    zeros = int((units == 0).all(axis=1).sum())
    if zeros:
        raise TrialFailure(f"{zeros} of {len(units)} embeddings are zero: they have no direction")
    return units


def figures(task: str, pairs: Pairs, vectors: np.ndarray) -> Scores:
    """The default protocol's figures; details are the same over other positives and over distinct sentences, and the
    cosines of each group of gold scores: how many, mean, standard deviation, quantiles."""
    first, second = vectors[: len(pairs)], vectors[len(pairs) :]
    found = geometry(first, second, pairs)
    other = geometry(first, second, pairs, inclusive=True, distinct=True)
    details = {
        f"{task}/gold>=4/alignment": other.alignment,
        f"{task}/distinct/uniformity": other.uniformity,
        f"{task}/distinct/mean-cosine": other.mean_cosine,
        f"{task}/distinct/first-component": other.first_component,
    }
    for group in (group for group in found.groups if len(group.cosines) > 1):
        name = f"{task}/cosines-{group.low:.0f}-{group.high:.0f}"
        details |= {
            f"{name}/pairs": float(len(group.cosines)),
            f"{name}/mean": float(group.cosines.mean()),
        }
        details |= {f"{name}/std": float(group.cosines.std(ddof=1))}
        quantiles = np.quantile(group.cosines, QUANTILES)
        details |= {
            f"{name}/q{round(100 * q)}": float(at)
            for q, at in zip(QUANTILES, quantiles, strict=True)
        }
    metrics = {
        "alignment": found.alignment,
        "uniformity": found.uniformity,
        "mean-cosine": found.mean_cosine,
        "first-component": found.first_component,
    }
    return Scores(metrics, details)


geometry_suite = register("geometry", {"geometry": LOADERS["stsb"]}, lambda: [archive()])(figures)
