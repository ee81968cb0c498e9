"""What every score of embeddings starts from: checked vectors of unit length, and their cosines.

All of it is in float64: pairs whose cosines differ by 1e-9 must keep their order.
"""

from collections.abc import Sequence

import numpy as np

from harness.errors import TrialFailure

NOISE = 1e-6
"""Coordinates of unit vectors that differ by no more count as equal.

The rounding of float32 makes such differences between batches and paddings."""


def unit_rows(vectors: np.ndarray) -> np.ndarray:
    """Rows (n, hidden) scaled to unit length, float64; a row of zeros stays as it is.

    Raises TrialFailure when a value is not finite, or when all rows point in one direction.
    """
    # SentEval counts the cosine of a zero vector as 0, and so it is here.
    vectors = np.asarray(vectors, np.float64)
    norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None]
    if not np.isfinite(norms).all():
        raise TrialFailure("the embeddings are not finite")
    units: np.ndarray = vectors / np.where(norms == 0, 1, norms)
    if np.ptp(units, axis=0).max() <= NOISE:
        raise TrialFailure("the embedding is constant")
    return units


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
