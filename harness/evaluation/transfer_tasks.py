"""Tasks of the suite `transfer-senteval`: the grid of penalties, the folds, and the features.

The protocol is in evaluation_protocol.md, section 2.
"""

from dataclasses import dataclass

import numpy as np
from sklearn.model_selection import StratifiedKFold

from harness.data.senteval import Splits
from harness.errors import TrialFailure

PENALTIES = (1e-5, 1e-4, 1e-3, 1e-2)
"""SentEval's grid of weight decays (evaluation_protocol.md, section 2.1)"""
RowSplit = tuple[np.ndarray, np.ndarray]
"""The numbers of the rows that are fitted, and of those that are held out"""
FOLDS, FAST_FOLDS = 10, 5
FOLD_SEED = 1111
"""SentEval's seed of the folds, which does not depend on the seed of a trial"""


@dataclass(frozen=True)
class Accuracy:
    """The accuracies x100 of a task."""

    dev: float
    """The accuracy of the best penalty on held-out training rows, or on the given dev set.

    Hyperparameters are chosen by it."""
    test: float
    penalties: tuple[float, ...]
    """The chosen weight decay, or that of each outer fold"""
    f1: float | None = None
    """F1 x100 of class 1 on the given test set, where there are two classes; MRPC reports it"""


def stratified_folds(labels: np.ndarray, folds: int) -> list[RowSplit]:
    """SentEval's folds: the numbers of the rows that are fitted, and of those held out."""
    # Of the first argument only the number of rows counts.
    return list(StratifiedKFold(folds, shuffle=True, random_state=FOLD_SEED).split(labels, labels))


def task_features(data: Splits, vectors: np.ndarray) -> dict[str, np.ndarray]:
    """Split -> its features, (rows, width) float32, from the vectors of `data.texts`.

    The features of a pair are |u - v| and u * v, side by side. Raises TrialFailure when the vectors
    are constant, not finite, or not one for each text.
    """
    vectors = np.asarray(vectors, np.float32)
    _check(vectors, len(data.texts))
    features, start = {}, 0
    for split, rows in data.items():
        own = vectors[start : start + len(rows)]
        start += len(rows)
        if rows.second is not None:
            other = vectors[start : start + len(rows)]
            start += len(rows)
            own = np.concatenate([np.abs(own - other), own * other], axis=1)
        features[split] = own
    return features


def _check(vectors: np.ndarray, expected: int) -> None:
    if vectors.ndim != 2 or len(vectors) != expected:
        raise TrialFailure(f"the embeddings of {expected} texts have the shape {vectors.shape}")
    if not np.isfinite(vectors).all():
        raise TrialFailure("the embeddings are not finite")
    # The tolerance is relative, because batches leave the rounding of float32 on equal vectors.
    if np.ptp(vectors, axis=0).max() <= 1e-6 * np.abs(vectors).max():
        raise TrialFailure("the embedding is constant")
