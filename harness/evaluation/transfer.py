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
from typing import TYPE_CHECKING

import numpy as np

from harness.data.senteval import Splits, archive
from harness.evaluation.catalogue import SENTEVAL_DEV, TRANSFER_DEV
from harness.evaluation.scores import Scores
from harness.evaluation.suites import register
from harness.evaluation.transfer_tasks import (
    FAST_FOLDS,
    FOLDS,
    PENALTIES,
    TASKS,
    Accuracy,
    AllTasks,
    Axes,
    RowSplit,
    accuracies,
    principal_axes,
    search_penalties,
    stratified_folds,
    task_features,
)

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression  # a plan names suites without it


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
    for fitted, tested in stratified_folds(labels, folds):
        penalty, score, model = _fit(
            axes[fitted], labels[fitted], stratified_folds(labels[fitted], folds)
        )
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
    from sklearn.metrics import accuracy_score, f1_score

    fitted = [split for split in ("train", "dev") if split in features]
    axes = principal_axes(np.concatenate([features[split] for split in (*fitted, "test")]))
    classes = np.concatenate([labels[split] for split in fitted])
    rows, train = np.arange(len(classes)), len(labels["train"])
    splits = [(rows[:train], rows[train:])] if "dev" in fitted else stratified_folds(classes, folds)
    penalty, dev, model = _fit(axes[rows], classes, splits, rows[:train])
    # The rows of the test set come last.
    predicted = model.predict(axes.rows[len(rows) :])
    f1 = 100 * f1_score(labels["test"], predicted) if classes.max() == 1 else None
    return Accuracy(dev, 100 * accuracy_score(labels["test"], predicted), (penalty,), f1)


def _fit(
    features: Axes, labels: np.ndarray, splits: list[RowSplit], rows: np.ndarray | None = None
) -> tuple[float, float, "LogisticRegression"]:
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
) -> "LogisticRegression":
    """Fit scikit-learn's model, beginning at the coefficients `start`, (outputs, width + 1)."""
    from scipy.linalg import LinAlgWarning
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    strength = (2 if labels.max() == 1 else 1) / (penalty * len(labels))
    model = LogisticRegression(C=strength, solver="newton-cholesky", max_iter=1000, warm_start=True)
    # With warm_start, scikit-learn begins at these attributes.
    model.coef_, model.intercept_ = start[:, :-1], start[:, -1]
    with warnings.catch_warnings():
        # Where float32 is not enough for a Newton step, scikit-learn warns and uses L-BFGS.
        warnings.simplefilter("ignore", LinAlgWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(features, labels)


SENTENCES = 105_000
"""Distinct sentences of the seven tasks"""


@register(
    "transfer",
    {**TASKS, TRANSFER_DEV: AllTasks},
    lambda: [archive()],
    sentences_dev=SENTENCES,
    sentences_test=SENTENCES,
)
def minimum(task: str, data: Splits | AllTasks, vectors: np.ndarray) -> Scores:
    """The scores of a task with classifiers at their minimum."""
    return accuracies(task, data, vectors, transfer)


@register(
    "transfer-senteval",
    {**TASKS, SENTEVAL_DEV: AllTasks},
    lambda: [archive()],
    sentences_dev=SENTENCES,
    sentences_test=SENTENCES,
)
def senteval(task: str, data: Splits | AllTasks, vectors: np.ndarray) -> Scores:
    """The scores of a task with SentEval's own classifiers."""
    from harness.evaluation.senteval_classifier import senteval_transfer

    return accuracies(task, data, vectors, senteval_transfer)
