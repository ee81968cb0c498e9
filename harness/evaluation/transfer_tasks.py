"""The shared part of both transfer suites: folds, features, the search of a penalty, and scores.

The protocol is in evaluation_protocol.md, section 2.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np

from harness.data.senteval import DATASETS, Splits
from harness.errors import TrialFailure
from harness.evaluation.scores import Scores

PENALTIES = (1e-5, 1e-4, 1e-3, 1e-2)
"""SentEval's grid of weight decays (evaluation_protocol.md, section 2.1)"""
CURVATURE = 0.1
"""A guess of p (1 - p) for an average row, used in the scales.

It changes the number of steps, not the minimum."""
TOLERANCE = 5e-4
"""The largest slope along a scaled axis at the end of the search.

Margins are then within about 1 % of those at the minimum, so hardly any row changes its side."""
MOST_STEPS = 500
"""The number of L-BFGS steps after which a search counts as failed"""

RowSplit = tuple[np.ndarray, np.ndarray]
"""The numbers of the rows that are fitted, and of those that are held out"""


@dataclass(frozen=True)
class Axes:
    """Centred features along their principal axes."""

    rows: np.ndarray
    """(rows, width) float32"""
    variances: np.ndarray
    """(width,): the variance along each axis"""

    def __getitem__(self, index: np.ndarray) -> "Axes":
        return Axes(self.rows[index], self.variances)


def principal_axes(features: np.ndarray) -> Axes:
    """Centre features (rows, width) float32, and rotate them to their principal axes."""
    # A float32 sum over many rows would lose digits.
    centred = features - features.mean(0, dtype=np.float64).astype(np.float32)
    variances, directions = np.linalg.eigh(centred.T @ centred / len(centred))
    # Rounding may make a variance of 0 slightly negative.
    return Axes(centred @ directions, np.maximum(variances, 0))


def search_penalties(
    features: Axes, labels: np.ndarray, splits: Sequence[RowSplit], refitted: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Fit every penalty on the rows of every split, and on the rows `refitted`.

    labels: (rows,), from 0. Returns the accuracies x100 on the held-out rows, (splits, PENALTIES),
    and the coefficients of `refitted`, (PENALTIES, outputs, width + 1). Two classes have one
    output, and the bias comes last. Raises TrialFailure when the optimisation does not converge.
    """
    problem = _Problem(features, labels, [*(fitted for fitted, _ in splits), refitted])
    # ftol 0: the search ends by the slope alone, not when the objective changes little.
    options = {"gtol": TOLERANCE, "ftol": 0, "maxiter": MOST_STEPS, "maxfun": 2 * MOST_STEPS}
    # With these scales, minus the gradient at zero is the step of a ridge regression from zero.
    start = -problem(np.zeros(problem.size))[1]
    from scipy.optimize import minimize  # a plan names suites without it

    result = minimize(problem, start, jac=True, method="L-BFGS-B", options=options)
    # Ten times, since float32 may end a search a little early; `not <`, so that nan fails, too.
    if not np.abs(result.jac).max() < 10 * TOLERANCE:
        raise TrialFailure(
            f"the logistic regressions that choose a penalty did not converge ({result.message})"
        )
    coefficients = problem.scaled(result.x)
    margins = problem.margins(coefficients)
    predicted = margins.argmax(1) if problem.classes > 2 else margins[:, 0] > 0
    right = predicted == labels[:, None, None]
    accuracies = [
        100 * right[held_out, :, fold].mean(0) for fold, (_, held_out) in enumerate(splits)
    ]
    return np.stack(accuracies), coefficients[..., -1].transpose(2, 1, 0)


class _Problem:
    """Hundreds of logistic regressions, one for each penalty and fold, as one sum of objectives.

    Each of them is the minimum of mean cross entropy + penalty / 2 * ||weights||^2, in which the
    bias is free, as in scikit-learn. Only the way there is shared: one L-BFGS minimises the sum,
    and a step for all of them is two matrix products.

    The features are rotated to their principal axes. This changes neither penalty nor minimum, but
    it makes the curvature nearly diagonal. With a scale for each axis and penalty, L-BFGS then
    needs about 15 steps, and 50 to 300 without. It would be faster still to start each fold from
    the solution on all rows, but that is wrong. Short of the minimum, such a fold remembers its
    held-out rows, and its accuracy is 0.5 to 1 point too high (measured).

    Coefficients are (width + 1, outputs, penalties, folds), the bias last. Two classes have one
    output, which is the margin of class 1.
    """

    def __init__(self, features: Axes, labels: np.ndarray, folds: Sequence[np.ndarray]) -> None:
        """`folds`: for each fold, the numbers of the rows that are fitted."""
        self.features, self.labels = features.rows, labels
        self.classes = int(labels.max()) + 1
        # SentEval has two outputs for two classes. Each has half of the margin's weights, so
        # together their penalties are half of that of the margin.
        penalties = np.asarray(PENALTIES, np.float32) / (2 if self.classes == 2 else 1)
        width, outputs = features.rows.shape[1], self.classes if self.classes > 2 else 1
        self.shape = (width + 1, outputs, len(penalties), len(folds))
        self.size = int(np.prod(self.shape))
        self.penalties = penalties[:, None]
        # One over the root of the curvature, so that it is about 1 along every scaled axis.
        scales = 1 / np.sqrt(CURVATURE * features.variances[:, None] + penalties)
        bias = np.full((1, len(penalties)), 1 / np.sqrt(CURVATURE), np.float32)
        self.scales = np.concatenate([scales, bias])[:, None, :, None]
        # How much each row counts in the mean of each fold; held-out rows count 0.
        self.shares = np.zeros((len(labels), 1, len(folds)), np.float32)
        for fold, fitted in enumerate(folds):
            self.shares[fitted, 0, fold] = 1 / len(fitted)

    def scaled(self, flat: np.ndarray) -> np.ndarray:
        """The coefficients of the rotated features, from the flat scaled ones."""
        return self.scales * flat.reshape(self.shape).astype(np.float32)

    def margins(self, coefficients: np.ndarray) -> np.ndarray:
        """The margins of all rows, (rows, outputs, penalties, folds)."""
        products: np.ndarray = self.features @ coefficients[:-1].reshape(self.shape[0] - 1, -1)
        products += coefficients[-1].ravel()
        return products.reshape(-1, *self.shape[1:])

    def __call__(self, flat: np.ndarray) -> tuple[float, np.ndarray]:
        """The objective and its gradient in the flat coefficients, float64 for the optimiser."""
        coefficients = self.scaled(flat)
        loss = _softmax if self.classes > 2 else _logistic
        losses, slopes = loss(self.margins(coefficients), self.labels)
        # The slopes become those of the mean losses, and 0 where a row is held out.
        slopes *= self.shares[:, None]
        decay = self.penalties * coefficients[:-1]
        objective = float((self.shares[:, 0] * losses.sum(1)).sum(dtype=np.float64))
        objective += float((decay * coefficients[:-1]).sum(dtype=np.float64)) / 2
        gradient = np.empty_like(coefficients)
        products = self.features.T @ slopes.reshape(len(slopes), -1)
        gradient[:-1] = products.reshape(decay.shape) + decay
        gradient[-1] = slopes.sum(0)
        return objective, (self.scales * gradient).ravel().astype(np.float64)


def _logistic(margins: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The cross entropy of two classes, and its slope in the margins.

    margins: (rows, 1, penalties, folds), as are the slopes; the cross entropies are without the
    second axis.
    """
    # In this form no exponential overflows.
    signs = (2 * labels - 1).astype(np.float32)[:, None, None, None]
    signed = signs * margins
    losses = np.log1p(np.exp(-np.abs(signed))) - np.minimum(signed, 0)
    return losses[:, 0], signs * ((np.tanh(signed / 2) - 1) / 2)


def _softmax(margins: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The cross entropy of several classes, and its slope in the margins.

    margins: (rows, classes, penalties, folds), as are the slopes; the cross entropies are without
    the second axis.
    """
    # No exponential overflows once the largest margin is 0.
    logarithms = margins - margins.max(1, keepdims=True)
    logarithms -= np.log(np.exp(logarithms).sum(1, keepdims=True))
    rows = np.arange(len(labels))
    slopes = np.exp(logarithms)
    slopes[rows, labels] -= 1
    return -logarithms[rows, labels], slopes


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
    """Function from a task and the vectors of its texts to accuracies."""

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
    accuracy = score(data, vectors)
    details = {
        f"{task}/dev": accuracy.dev,
        f"{task}/penalty-log10": float(np.log10(accuracy.penalties).mean()),
    }
    if accuracy.f1 is not None:
        details[f"{task}/f1"] = accuracy.f1
    return Scores({task: accuracy.test}, details)
