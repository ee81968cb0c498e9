"""Every penalty in every fold at once: hundreds of logistic regressions as one optimisation.

Each is the minimum of mean cross entropy + penalty / 2 * ||weights||^2, the bias free, as scikit-learn's are; only the
way there is shared. Features are rotated to their principal axes, which changes neither penalty nor minimum but makes
the curvature nearly diagonal, so that a scale per axis and penalty brings L-BFGS there in about 15 steps (50 to 300
without); and a step of all of them is two matrix products. Starting a fold from the solution on all rows would be
quicker still and is wrong: short of the minimum it remembers the held-out rows (0.5 to 1 point too good, measured).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from harness.errors import TrialFailure

PENALTIES = (1e-5, 1e-4, 1e-3, 1e-2)
"""SentEval's grid of weight decays"""
CURVATURE = 0.1
"""p (1 - p) of an average row, for the scales; a guess decides only how many steps it takes"""
TOLERANCE = 5e-4
"""Largest slope along a scaled axis; margins are then within about 1 % of the minimum's: hardly a row changes side"""
MOST_STEPS = 500

RowSplit = tuple[np.ndarray, np.ndarray]
"""Indices of the rows that are fitted, and of those held out"""


@dataclass(frozen=True)
class Axes:
    """Centred features along their principal axes, (rows, width) float32, and the variance along each."""

    rows: np.ndarray
    variances: np.ndarray

    def __getitem__(self, index: np.ndarray) -> "Axes":
        return Axes(self.rows[index], self.variances)


def principal_axes(features: np.ndarray) -> Axes:
    """Rotate features (rows, width), float32."""
    centred = features - features.mean(0, dtype=np.float64).astype(np.float32)
    variances, directions = np.linalg.eigh(centred.T @ centred / len(centred))
    return Axes(centred @ directions, np.maximum(variances, 0))


def search_penalties(
    features: Axes, labels: np.ndarray, splits: Sequence[RowSplit], refitted: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Fit every penalty on the rows of every split, and on the rows `refitted`.

    labels: (rows,), classes 0 to classes - 1. Returns the accuracies x100 on the rows held out, (splits, PENALTIES),
    and the coefficients of `refitted`, (PENALTIES, outputs, width + 1): one output for two classes, the bias last.
    Raises TrialFailure when the optimisation does not arrive.
    """
    problem = _Problem(features, labels, [*(fitted for fitted, _ in splits), refitted])
    options = {"gtol": TOLERANCE, "ftol": 0, "maxiter": MOST_STEPS, "maxfun": 2 * MOST_STEPS}
    start = -problem(np.zeros(problem.size))[
        1
    ]  # a ridge regression's step from zero, for these scales
    found = minimize(problem, start, jac=True, method="L-BFGS-B", options=options)
    if not np.abs(found.jac).max() < 10 * TOLERANCE:  # float32 may end a search a little early
        raise TrialFailure(
            f"the logistic regressions that choose a penalty did not converge ({found.message})"
        )
    coefficients = problem.scaled(found.x)
    margins = problem.margins(coefficients)
    predicted = margins.argmax(1) if problem.classes > 2 else margins[:, 0] > 0
    right = predicted == labels[:, None, None]
    accuracies = [
        100 * right[held_out, :, fold].mean(0) for fold, (_, held_out) in enumerate(splits)
    ]
    return np.stack(accuracies), coefficients[..., -1].transpose(2, 1, 0)


class _Problem:
    """The sum of all objectives; coefficients are (width + 1, outputs, penalties, folds), the bias last.

    Two classes have one output, the margin of class 1: of the two outputs of a softmax, each with half the margin as
    SentEval has them, the penalties add up to half of the margin's.
    """

    def __init__(self, features: Axes, labels: np.ndarray, folds: Sequence[np.ndarray]) -> None:
        self.features, self.labels = features.rows, labels
        self.classes = int(labels.max()) + 1
        penalties = np.asarray(PENALTIES, np.float32) / (2 if self.classes == 2 else 1)
        width, outputs = features.rows.shape[1], self.classes if self.classes > 2 else 1
        self.shape = (width + 1, outputs, len(penalties), len(folds))
        self.size = int(np.prod(self.shape))
        self.penalties = penalties[:, None]
        scales = 1 / np.sqrt(CURVATURE * features.variances[:, None] + penalties)
        bias = np.full((1, len(penalties)), 1 / np.sqrt(CURVATURE), np.float32)
        self.scales = np.concatenate([scales, bias])[:, None, :, None]
        self.shares = np.zeros((len(labels), 1, len(folds)), np.float32)
        for fold, fitted in enumerate(folds):
            self.shares[fitted, 0, fold] = 1 / len(fitted)

    def scaled(self, flat: np.ndarray) -> np.ndarray:
        """The coefficients of the rotated features."""
        return self.scales * flat.reshape(self.shape).astype(np.float32)

    def margins(self, coefficients: np.ndarray) -> np.ndarray:
        """(rows, outputs, penalties, folds)."""
        products: np.ndarray = self.features @ coefficients[:-1].reshape(self.shape[0] - 1, -1)
        products += coefficients[-1].ravel()
        return products.reshape(-1, *self.shape[1:])

    def __call__(self, flat: np.ndarray) -> tuple[float, np.ndarray]:
        """The objective and its slope, float64 for the optimiser."""
        coefficients = self.scaled(flat)
        losses, slopes = (_softmax if self.classes > 2 else _logistic)(
            self.margins(coefficients), self.labels
        )
        slopes *= self.shares[:, None]
        decay = self.penalties * coefficients[:-1]
        objective = float((self.shares[:, 0] * losses.sum(1)).sum(dtype=np.float64))
        objective += float((decay * coefficients[:-1]).sum(dtype=np.float64)) / 2
        gradient = np.empty_like(coefficients)
        gradient[:-1] = (self.features.T @ slopes.reshape(len(slopes), -1)).reshape(
            decay.shape
        ) + decay
        gradient[-1] = slopes.sum(0)
        return objective, (self.scales * gradient).ravel().astype(np.float64)


def _logistic(margins: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cross entropy (rows, penalties, folds), and its slope in the margins (rows, 1, penalties, folds)."""
    signs = (2 * labels - 1).astype(np.float32)[:, None, None, None]
    signed = signs * margins
    losses = np.log1p(np.exp(-np.abs(signed))) - np.minimum(signed, 0)
    return losses[:, 0], signs * ((np.tanh(signed / 2) - 1) / 2)


def _softmax(margins: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same for several classes; the slope is (rows, classes, penalties, folds)."""
    logarithms = margins - margins.max(1, keepdims=True)
    logarithms -= np.log(np.exp(logarithms).sum(1, keepdims=True))
    rows = np.arange(len(labels))
    slopes = np.exp(logarithms)
    slopes[rows, labels] -= 1
    return -logarithms[rows, labels], slopes
