"""What every score of embeddings starts from: vectors that are checked, made unit length, and their cosines."""

from collections.abc import Sequence

import numpy as np

from harness.errors import TrialFailure

NOISE = 1e-6
"""Below this, coordinates of unit vectors differ by the rounding of float32 (padding, batch, rotation)"""


def unit_rows(vectors: np.ndarray) -> np.ndarray:
    """Rows (n, hidden) made unit length, float64; a zero row stays zero, as SentEval has it.

    Raises TrialFailure when a value is not finite, or when all rows point in one direction.
    """
    vectors = np.asarray(vectors, np.float64)
    norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None]
    if not np.isfinite(norms).all():
        raise TrialFailure("the embeddings are not finite")
    units: np.ndarray = vectors / np.where(norms == 0, 1, norms)
    if np.ptp(units, axis=0).max() <= NOISE:
        raise TrialFailure("the embedding is constant")
    return units


def pair_cosines(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Cosines (n,) of paired rows, (n, hidden) each, float64; 0 where a row is zero, exactly 1 for equal rows.

    Raises TrialFailure when a value is not finite.
    """
    first, second = np.asarray(first, np.float64), np.asarray(second, np.float64)
    squares = np.einsum("ij,ij->i", first, first) * np.einsum("ij,ij->i", second, second)
    if not np.isfinite(squares).all():
        raise TrialFailure("the embeddings are not finite")
    cosines: np.ndarray = np.einsum("ij,ij->i", first, second) / np.sqrt(
        np.where(squares == 0, 1, squares)
    )
    return cosines


def first_rows(texts: Sequence[str]) -> np.ndarray:
    """The number of the first row of every distinct text, ascending."""
    first: dict[str, int] = {}
    for row, text in enumerate(texts):
        first.setdefault(text, row)
    return np.asarray(list(first.values()))
