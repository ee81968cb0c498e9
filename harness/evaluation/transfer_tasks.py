"""What both transfer suites share: folds, features, and from accuracies to scores.

The protocol is in evaluation_protocol.md, section 2.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np

from harness.data.classification import DATASETS, Splits
from harness.errors import TrialFailure
from harness.evaluation.logistic_search import RowSplit
from harness.evaluation.scores import Scores

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
    from sklearn.model_selection import StratifiedKFold  # a plan names suites without it

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


class Score(Protocol):
    """How a suite gets the accuracies of a task from the vectors of its texts."""

    def __call__(self, data: Splits, vectors: np.ndarray, *, fast: bool = False) -> Accuracy:
        """`fast`: SentEval's fast mode, in which dev is scored during a training."""


@functools.cache
def _task(name: str) -> Splits:
    return DATASETS[name]()


TASKS: Mapping[str, Callable[[], Splits]] = {
    name: functools.partial(_task, name) for name in DATASETS
}
"""Task -> the function that reads it, once in a process"""


# A checkpoint is chosen by one number, so the seven tasks have to be one dev task.
class AllTasks:
    """The seven tasks as one task, for the mean of their dev accuracies."""

    def __init__(self) -> None:
        self.tasks = [read() for read in TASKS.values()]

    @property
    def texts(self) -> list[str]:
        """The texts of every task, one task after the other."""
        return [text for task in self.tasks for text in task.texts]


def dev_average(tasks: Sequence[Splits], vectors: np.ndarray, score: Score) -> float:
    """The mean of the dev accuracies x100 in fast mode (diffcse.md, section 4).

    vectors: those of the texts of every task, one task after the other. DiffCSE selects its
    checkpoints for the transfer tasks by this score.
    """
    starts = np.cumsum([0, *(len(task.texts) for task in tasks)])
    parts = [vectors[start:stop] for start, stop in pairwise(starts)]
    devs = [score(task, part, fast=True).dev for task, part in zip(tasks, parts, strict=True)]
    return float(np.mean(devs))


def accuracies(task: str, data: Splits | AllTasks, vectors: np.ndarray, score: Score) -> Scores:
    """The scores of a task: its test accuracy, or for the dev task the mean dev accuracy.

    Details are the dev accuracy, F1, and the mean of the logarithms of the chosen penalties.
    """
    if isinstance(data, AllTasks):
        return Scores({task: dev_average(data.tasks, vectors, score)})
    found = score(data, vectors)
    details = {
        f"{task}/dev": found.dev,
        f"{task}/penalty-log10": float(np.log10(found.penalties).mean()),
    }
    if found.f1 is not None:
        details[f"{task}/f1"] = found.f1
    return Scores({task: found.test}, details)
