"""Exact search: the vectors nearest to a query by cosine, block by block.

Cosines are computed in float64 and rounded to steps of 6e-8, which float32 holds, as trec_eval
does. So equal vectors tie on every machine. Of documents that tie, the earlier row is nearer.
Memory beyond the vectors is that of a block and of the best rows of every query.
"""

from collections.abc import Sequence

import numpy as np

from harness.errors import TrialFailure
from harness.evaluation.correlation import NOISE, unit_blocks

DOCUMENTS_AT_ONCE, QUERIES_AT_ONCE = 8192, 256
"""Rows of a block of cosines"""
STEPS = 2**24
"""Steps between the cosines 0 and 1"""
_LOW = 2**32 - 1
"""The lower half of a sort key"""


def nearest(
    queries: np.ndarray, documents: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """The rows of the `count` nearest documents of every query, and their cosines, nearest first.

    queries, documents: (queries, hidden) and (documents, hidden). Both results have the shape
    (queries, min(count, documents)), the cosines in float32. A zero vector has cosine 0. Raises
    TrialFailure when a vector is not finite, or when all of them point in one direction.
    """
    count, parts = min(count, len(documents)), list(unit_blocks(queries, QUERIES_AT_ONCE))
    best = [np.empty((len(part), 0), np.int64) for part in parts]
    spread, anchor, start = 0.0, parts[0][0], 0
    for block in unit_blocks(documents, DOCUMENTS_AT_ONCE):
        spread = max(spread, float(np.abs(block - anchor).max()))
        for at, part in enumerate(parts):
            keys = np.concatenate([best[at], _keys(part @ block.T, start)], axis=1)
            # Keys differ, so which ones are the largest does not depend on the blocks.
            cut = max(0, keys.shape[1] - count)
            best[at] = np.partition(keys, cut, axis=1)[:, cut:]
        start += len(block)
    if max(spread, *(float(np.abs(part - anchor).max()) for part in parts)) <= NOISE:
        raise TrialFailure("the embedding is constant")
    keys = -np.sort(-np.concatenate(best), axis=1)
    return _LOW - (keys & _LOW), ((keys >> 32) / STEPS).astype(np.float32)


def _keys(cosines: np.ndarray, start: int) -> np.ndarray:
    """Whole numbers that sort as the cosines do, and the earlier of two equal ones higher.

    cosines: (queries, documents), of the documents from the row `start` on.
    """
    steps = np.rint(cosines * STEPS).astype(np.int64)
    keys: np.ndarray = (steps << 32) | (_LOW - (start + np.arange(cosines.shape[1])))
    return keys


def nearest_texts(
    query: str, vector: np.ndarray, texts: Sequence[str], vectors: np.ndarray, count: int
) -> list[tuple[str, float]]:
    """The `count` texts nearest to a query, with their cosines, nearest first.

    vector: (hidden,), of the query, which may be any text. texts: distinct ones; vectors: (texts,
    hidden). The query itself is left out, in upper or lower case. Raises TrialFailure when the
    vector is not finite or zero, or when the embedding is constant.
    """
    norm = float(np.linalg.norm(np.asarray(vector, np.float64)))
    if not np.isfinite(norm) or norm == 0:
        raise TrialFailure(f'the embedding of "{query}" has no direction (its length is {norm})')
    # Case does not matter, because the papers print their queries in lower case.
    own = sum(text.lower() == query.lower() for text in texts)
    [rows], [cosines] = nearest(vector[None], vectors, count + own)
    near = [(texts[row], float(near)) for row, near in zip(rows, cosines, strict=True)]
    return [each for each in near if each[0].lower() != query.lower()][:count]
