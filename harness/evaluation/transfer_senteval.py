"""Transfer tasks with SentEval's own classifier: the protocol of the published scores.

The protocol is in evaluation_protocol.md, section 2.1. It differs from the suite `transfer` in the
classifier alone. Dev accuracies of the two suites cannot be compared: SentEval stops a training on
the rows that then give its dev accuracy.
"""

import numpy as np
from sklearn.metrics import f1_score

from harness.data.classification import Splits
from harness.device import device
from harness.evaluation.logistic_search import PENALTIES, RowSplit
from harness.evaluation.senteval_classifier import (
    FAST_MODE,
    TEST_MODE,
    Layers,
    Rows,
    Training,
    fit,
    given_fold,
    split_fold,
)
from harness.evaluation.transfer_tasks import (
    FAST_FOLDS,
    FOLDS,
    Accuracy,
    stratified_folds,
    task_features,
)


def senteval_transfer(data: Splits, vectors: np.ndarray, *, fast: bool = False) -> Accuracy:
    """The accuracies of a task.

    vectors: (len(data.texts), width). `fast`: SentEval's fast mode, with 5 folds. Raises
    TrialFailure when the vectors are constant or not finite.
    """
    features = task_features(data, vectors)
    labels = {split: rows.labels for split, rows in data.items()}
    folds, training = (FAST_FOLDS, FAST_MODE) if fast else (FOLDS, TEST_MODE)
    if "all" in data:
        return senteval_nested(features["all"], labels["all"], folds, training)
    return senteval_single_test(features, labels, folds, training)


def senteval_nested(
    features: np.ndarray, labels: np.ndarray, folds: int = FOLDS, training: Training = TEST_MODE
) -> Accuracy:
    """Score MR, CR, SUBJ or MPQA, which have no test set.

    features: (rows, width) float32; labels: (rows,), from 0. The layers of all inner folds of all
    outer folds train side by side, and then those of the outer folds with their chosen penalties.
    """
    rows, outer = Rows(features, labels, device()), stratified_folds(labels, folds)
    inner: list[RowSplit] = []
    for fitted, _ in outer:
        inner += _folds_of(fitted, labels[fitted], folds)
    scores = _validated(rows, inner, training)[0].reshape(len(outer), folds, -1).mean(1)
    best = _best(scores)
    penalties = [PENALTIES[index] for index in best]
    refits = [split_fold(fitted, each) for (fitted, _), each in zip(outer, penalties, strict=True)]
    layers = fit(rows, refits, training)
    tests = [
        rows.accuracies(tested, layer.weights)[0]
        for (_, tested), layer in zip(outer, layers, strict=True)
    ]
    dev = scores[np.arange(len(outer)), best].mean()
    return Accuracy(float(dev), float(np.mean(tests)), tuple(penalties))


def senteval_single_test(
    features: dict[str, np.ndarray],
    labels: dict[str, np.ndarray],
    folds: int = FOLDS,
    training: Training = TEST_MODE,
) -> Accuracy:
    """Score SST-2, TREC or MRPC, which are fitted on `train` and tested on `test`.

    features: (rows, width) float32, and labels: (rows,), from 0, of each split. The penalty is
    chosen on `dev`, or else by a cross-validation on `train`.
    """
    classes = np.concatenate([labels[split] for split in features])
    rows = Rows(np.concatenate(list(features.values())), classes, device())
    ends = np.cumsum([len(part) for part in features.values()])
    numbers = dict(zip(features, np.split(np.arange(len(classes)), ends[:-1]), strict=True))
    train, given = numbers["train"], "dev" in numbers
    splits = [(train, numbers["dev"])] if given else _folds_of(train, labels["train"], folds)
    validated, layers = _validated(rows, splits, training)
    scores = validated.mean(0)
    best = int(_best(scores))
    if given:  # SentEval's refit has the same rows and the same seed, so it gives the same layer
        weights = layers[0].weights[best : best + 1]
    else:
        weights = fit(rows, [split_fold(train, PENALTIES[best])], training)[0].weights
    [predicted] = rows.predicted(numbers["test"], weights)
    right = predicted == labels["test"]
    f1 = 100 * f1_score(labels["test"], predicted) if rows.classes == 2 else None
    return Accuracy(float(scores[best]), float(100 * right.mean()), (PENALTIES[best],), f1)


def _folds_of(numbers: np.ndarray, labels: np.ndarray, folds: int) -> list[RowSplit]:
    """The folds of the rows with these numbers, which have these labels."""
    splits = stratified_folds(labels, folds)
    return [(numbers[fitted], numbers[held_out]) for fitted, held_out in splits]


def _validated(
    rows: Rows, splits: list[RowSplit], training: Training
) -> tuple[np.ndarray, list[Layers]]:
    """The best accuracies x100 on the held-out rows, (splits, PENALTIES), and their layers."""
    layers = fit(rows, [given_fold(*split, PENALTIES) for split in splits], training)
    return np.stack([each.accuracies for each in layers]), layers


def _best(scores: np.ndarray) -> np.ndarray:
    """The numbers of the best penalties along the last axis.

    As in SentEval: of penalties that are equal to two decimals, the smallest is taken.
    """
    found: np.ndarray = scores.round(2).argmax(-1)
    return found
