"""Transfer tasks: a logistic regression on frozen embeddings, in SentEval's protocol.

The protocol is in evaluation_protocol.md, section 2. scikit-learn fits every classifier that is
tested, by Newton steps. They begin where the joint search of the penalty (logistic_search) ended.

SentEval's classifier is a linear layer with an output for each class. Adam trains it with weight
decay, that is, on mean cross entropy + weight_decay / 2 * ||weights||^2. scikit-learn's has the
same minimum with C = 1 / (weight_decay * rows). For two classes scikit-learn has one output, and
C = 2 / (weight_decay * rows): each of SentEval's two outputs has half of its weights, with opposite
signs, so that their two penalties together are half of one.

Three things differ from SentEval. The fit goes to the minimum, where SentEval stops Adam early on
held-out rows (a random 5 % in a refit). The bias is not penalised. Nothing is random but the folds.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.linalg import LinAlgWarning
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score
from sklearn.model_selection import StratifiedKFold

from harness.data.classification import DATASETS, Splits
from harness.data.senteval import archive
from harness.errors import TrialFailure
from harness.evaluation.logistic_search import (
    PENALTIES,
    Axes,
    RowSplit,
    principal_axes,
    search_penalties,
)
from harness.evaluation.scores import Scores
from harness.evaluation.suites import register

DEV_TASK = "transfer-dev"
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


def transfer(data: Splits, vectors: np.ndarray, *, fast: bool = False) -> Accuracy:
    """The accuracies of a task.

    vectors: (len(data.texts), width). `fast`: 5 folds instead of 10, as in SentEval's fast mode.
    Raises TrialFailure when the vectors are constant or not finite.
    """
    features = task_features(data, vectors)
    labels = {split: rows.labels for split, rows in data.items()}
    folds = FAST_FOLDS if fast else FOLDS
    if "all" in data:
        return nested_cross_validation(features["all"], labels["all"], folds)
    return single_test(features, labels, folds)


def nested_cross_validation(
    features: np.ndarray, labels: np.ndarray, folds: int = FOLDS
) -> Accuracy:
    """Score MR, CR, SUBJ or MPQA, which have no test set.

    features: (rows, width) float32; labels: (rows,), from 0. In each of `folds` outer folds, an
    inner cross-validation chooses the penalty. Dev is the mean of the best inner scores, and test
    is the mean of the accuracies of the outer folds.
    """
    # One rotation for all folds, held-out rows included: it changes no minimum, so nothing leaks.
    axes = principal_axes(features)
    dev, test, penalties = [], [], []
    for fitted, tested in _folds(labels, folds):
        penalty, score, model = _fit(axes[fitted], labels[fitted], _folds(labels[fitted], folds))
        dev.append(score)
        test.append(100 * model.score(axes.rows[tested], labels[tested]))
        penalties.append(penalty)
    return Accuracy(float(np.mean(dev)), float(np.mean(test)), tuple(penalties))


def single_test(
    features: dict[str, np.ndarray], labels: dict[str, np.ndarray], folds: int = FOLDS
) -> Accuracy:
    """Score SST-2, TREC or MRPC, which are fitted on `train` and tested on `test`.

    features: (rows, width) float32, and labels: (rows,), from 0, of each split. The penalty is
    chosen on `dev`, or else by a cross-validation on `train`.
    """
    known = [split for split in ("train", "dev") if split in features]
    axes = principal_axes(np.concatenate([features[split] for split in (*known, "test")]))
    classes = np.concatenate([labels[split] for split in known])
    rows, train = np.arange(len(classes)), len(labels["train"])
    splits = [(rows[:train], rows[train:])] if "dev" in known else _folds(classes, folds)
    penalty, dev, model = _fit(axes[rows], classes, splits, rows[:train])
    # The rows of the test set come last.
    predicted = model.predict(axes.rows[len(rows) :])
    f1 = 100 * f1_score(labels["test"], predicted) if classes.max() == 1 else None
    return Accuracy(dev, 100 * accuracy_score(labels["test"], predicted), (penalty,), f1)


def _folds(labels: np.ndarray, folds: int) -> list[RowSplit]:
    # Of the first argument only the number of rows counts.
    return list(StratifiedKFold(folds, shuffle=True, random_state=FOLD_SEED).split(labels, labels))


def _fit(
    features: Axes, labels: np.ndarray, splits: list[RowSplit], rows: np.ndarray | None = None
) -> tuple[float, float, LogisticRegression]:
    """Choose a penalty over the splits, and fit it on `rows` (all of them by default).

    Returns the penalty, its mean accuracy x100 over the splits, and its model of `rows`.
    """
    rows = np.arange(len(labels)) if rows is None else rows
    accuracies, starts = search_penalties(features, labels, splits, rows)
    means = accuracies.mean(0)
    # As in SentEval: of penalties that are equal to two decimals, the smallest is taken.
    best = int(means.round(2).argmax())
    model = _refit(features.rows[rows], labels[rows], PENALTIES[best], starts[best])
    return PENALTIES[best], float(means[best]), model


def _refit(
    features: np.ndarray, labels: np.ndarray, penalty: float, start: np.ndarray
) -> LogisticRegression:
    """Fit scikit-learn's model, beginning at the coefficients `start`, (outputs, width + 1)."""
    strength = (2 if labels.max() == 1 else 1) / (penalty * len(labels))
    model = LogisticRegression(C=strength, solver="newton-cholesky", max_iter=1000, warm_start=True)
    # With warm_start, scikit-learn begins at these attributes.
    model.coef_, model.intercept_ = start[:, :-1], start[:, -1]
    with warnings.catch_warnings():
        # Where float32 is not enough for a Newton step, scikit-learn warns and uses L-BFGS.
        warnings.simplefilter("ignore", LinAlgWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(features, labels)


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


# A checkpoint is chosen by one number, so the seven tasks have to be one dev task.
class AllTasks:
    """The seven tasks as one task, for the mean of their dev accuracies."""

    def __init__(self) -> None:
        self.tasks = [transfer_suite.load(task) for task in DATASETS]

    @property
    def texts(self) -> list[str]:
        """The texts of every task, one task after the other."""
        return [text for task in self.tasks for text in task.texts]


def dev_average(tasks: Sequence[Splits], vectors: np.ndarray) -> float:
    """The mean of the dev accuracies x100 in fast mode (diffcse.md, section 4).

    vectors: those of the texts of every task, one task after the other. DiffCSE selects its
    checkpoints for the transfer tasks by this score.
    """
    starts = np.cumsum([0, *(len(task.texts) for task in tasks)])
    parts = [vectors[start:stop] for start, stop in pairwise(starts)]
    scores = [transfer(task, part, fast=True).dev for task, part in zip(tasks, parts, strict=True)]
    return float(np.mean(scores))


def accuracies(task: str, data: Splits | AllTasks, vectors: np.ndarray) -> Scores:
    """The scores of a task: its test accuracy, or for `transfer-dev` the mean dev accuracy.

    Details are the dev accuracy, F1, and the mean of the logarithms of the chosen penalties.
    """
    if isinstance(data, AllTasks):
        return Scores({task: dev_average(data.tasks, vectors)})
    found = transfer(data, vectors)
    details = {
        f"{task}/dev": found.dev,
        f"{task}/penalty-log10": float(np.log10(found.penalties).mean()),
    }
    if found.f1 is not None:
        details[f"{task}/f1"] = found.f1
    return Scores({task: found.test}, details)


transfer_suite = register(
    "transfer",
    {**DATASETS, DEV_TASK: AllTasks},
    lambda: [archive()],
    sentences_dev=105_000,
    sentences_test=105_000,
)(accuracies)
