"""Correlations of cosines with gold scores, and SentEval's ways of joining the subsets of a year.

All of it is in float64: pairs whose cosines differ by 1e-9 must keep their order. The protocol is
that of evaluation_protocol.md, section 1.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from harness.data.sts_pairs import Pairs
from harness.errors import TrialFailure

NOISE = 1e-6
"""Coordinates of unit vectors that differ by no more count as equal.

The rounding of float32 makes such differences between batches and paddings."""


def unit_rows(vectors: np.ndarray) -> np.ndarray:
    """Rows (n, hidden) scaled to unit length, float64; a row of zeros stays as it is.

    Raises TrialFailure when a value is not finite, or when all rows point in one direction.
    """
    [units] = unit_blocks(vectors, len(vectors))
    if np.ptp(units, axis=0).max() <= NOISE:
        raise TrialFailure("the embedding is constant")
    return units


def unit_blocks(vectors: np.ndarray, size: int) -> Iterator[np.ndarray]:
    """`unit_rows` in blocks of `size` rows, which may all point in one direction."""
    for start in range(0, len(vectors), size):
        block = np.asarray(vectors[start : start + size], np.float64)
        norms = np.sqrt(np.einsum("ij,ij->i", block, block))[:, None]
        if not np.isfinite(norms).all():
            raise TrialFailure("the embeddings are not finite")
        # SentEval counts the cosine of a zero vector as 0, and so it is here.
        yield block / np.where(norms == 0, 1, norms)


def pair_cosines(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The cosines (n,) of paired rows, each (n, hidden), in float64.

    A cosine is 0 where a row is zero, and exactly 1 for equal rows. Raises TrialFailure when a
    value is not finite.
    """
    # One square root of the product, not two: only so is the cosine of equal rows exactly 1.
    first, second = np.asarray(first, np.float64), np.asarray(second, np.float64)
    squares = np.einsum("ij,ij->i", first, first) * np.einsum("ij,ij->i", second, second)
    if not np.isfinite(squares).all():
        raise TrialFailure("the embeddings are not finite")
    cosines: np.ndarray = np.einsum("ij,ij->i", first, second) / np.sqrt(
        np.where(squares == 0, 1, squares)
    )
    return cosines


def first_rows(texts: Sequence[str]) -> np.ndarray:
    """The number of the first row of every distinct text, ascending; (distinct texts,)."""
    first: dict[str, int] = {}
    for row, text in enumerate(texts):
        first.setdefault(text, row)
    return np.asarray(list(first.values()))


EQUAL = 1e-12
"""Cosines that differ by no more count as equal.

Vectors that differ by the rounding of float32 alone have cosines as near as this to 1."""


class Correlation(NamedTuple):
    """Two correlations x100, each from -100 to 100."""

    pearson: float
    spearman: float


def sts_scores(first: np.ndarray, second: np.ndarray, pairs: Pairs) -> dict[str, Correlation]:
    """The correlations of the embeddings of pairs, as SentEval's STSEval computes them.

    `all`: over all pairs. Where there are subsets, also `mean`: the mean of theirs, `wmean`: their
    mean weighted by their sizes, and the correlation over the pairs of each subset.
    first, second: (pairs, hidden), of the first and of the second sentences. Raises TrialFailure
    when they are constant or not finite, or when all cosines of a subset are equal.
    """
    cosines = pair_cosines(first, second)
    scores = {"all": correlation(cosines, pairs.gold)}
    subsets = {
        name: correlation(cosines[part], pairs.gold[part]) for name, part in pairs.parts().items()
    }
    if subsets:
        found, sizes = np.asarray(list(subsets.values())), list(pairs.subsets.values())
        scores["mean"] = Correlation(*found.mean(axis=0).tolist())
        scores["wmean"] = Correlation(*np.average(found, axis=0, weights=sizes).tolist())
    return scores | subsets


def correlation(cosines: np.ndarray, gold: np.ndarray) -> Correlation:
    """The correlations of cosines (pairs,) with gold scores (pairs,).

    Raises TrialFailure where they are not defined.
    """
    check_defined(cosines, gold)
    # The import of scipy.stats takes 0.3 s of every trial. These are its digits, to the last one,
    # but for Pearson of two pairs, which it rounds.
    ranks = np.corrcoef(_ranks(cosines), _ranks(gold))
    pearson = np.clip(_unit(cosines) @ _unit(gold), -1, 1)
    return Correlation(pearson=float(pearson * 100), spearman=float(ranks[1, 0] * 100))


def _ranks(values: np.ndarray) -> np.ndarray:
    """The ranks of values (n,), from 1; equal values share the mean of theirs."""
    _, group, sizes = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(sizes) - (sizes - 1) / 2)[group]


def _unit(values: np.ndarray) -> np.ndarray:
    """Values (n,) minus their mean, scaled to unit length."""
    centred = np.asarray(values, np.float64) - np.mean(values, dtype=np.float64)
    greatest = np.abs(centred).max()
    unit: np.ndarray = centred / (greatest * np.sqrt(np.sum((centred / greatest) ** 2)))
    return unit


def spearman(first: np.ndarray, second: np.ndarray, gold: np.ndarray) -> float:
    """Spearman x100 of the cosines of paired rows with gold scores (pairs,).

    first, second: (pairs, hidden). Raises TrialFailure when they are not finite or all cosines are
    equal: a constant embedding has no rank correlation.
    """
    return correlation(pair_cosines(first, second), gold).spearman


def check_defined(cosines: np.ndarray, gold: np.ndarray) -> None:
    """Raise TrialFailure when cosines or gold scores, (pairs,), have no correlation.

    That is so when they are not finite or all equal.
    """
    # numpy would only warn, and give nan.
    if not (np.isfinite(cosines).all() and np.isfinite(gold).all()):
        raise TrialFailure("similarities are not finite")
    if len(gold) == 1:
        raise TrialFailure("there is a single sentence pair: no correlation is defined")
    if np.ptp(gold) == 0:
        raise TrialFailure("all sentence pairs have the same gold score: no correlation is defined")
    if np.ptp(cosines) <= EQUAL:
        raise TrialFailure("all sentence pairs have the same similarity: the embedding is constant")
