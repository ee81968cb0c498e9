"""The joint search of penalties against scikit-learn and torch, fit by fit."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from harness.errors import TrialFailure
from harness.evaluation import transfer_tasks
from harness.evaluation.transfer import nested_cross_validation
from harness.evaluation.transfer_tasks import PENALTIES, principal_axes, search_penalties

Make = Callable[..., Any]


@pytest.mark.parametrize("classes", [2, 3])
def test_the_search_ends_near_the_minimum(
    classes: int, problem: Make, fitted: Make, stratified: Make
) -> None:
    """At its own tolerance, margins are within 2 % of those of scikit-learn."""
    features, labels = problem(400, classes, seed=5)
    axes = principal_axes(features)
    _, coefficients = search_penalties(axes, labels, stratified(labels, 4), np.arange(400))
    for weight_decay, own in zip(PENALTIES, coefficients, strict=True):
        margins = axes.rows @ own[:, :-1].T + own[:, -1]
        model = fitted(features, labels, weight_decay)
        expected = model.decision_function(features).reshape(400, -1)
        if classes > 2:  # a softmax knows margins only up to a constant
            margins = margins - margins.mean(1, keepdims=True)
            expected = expected - expected.mean(1, keepdims=True)
        assert np.abs(margins - expected).max() < 0.02 * np.abs(expected).max()


@pytest.mark.slow
@pytest.mark.usefixtures("exact")
def test_the_penalty_is_the_weight_decay_of_sentevals_layer(
    problem: Make, stratified: Make
) -> None:
    """Against a linear layer with two outputs and weight decay on its weights, at the minimum."""
    features, labels = problem(300, 2, seed=6)
    axes = principal_axes(features)
    _, coefficients = search_penalties(axes, labels, stratified(labels, 4), np.arange(300))
    for weight_decay, own in zip(PENALTIES, coefficients, strict=True):
        outputs = linear_layer(features, labels, weight_decay)
        margins = axes.rows @ own[0, :-1] + own[0, -1]
        assert np.abs(margins - (outputs[:, 1] - outputs[:, 0])).max() < 5e-3


def linear_layer(features: np.ndarray, labels: np.ndarray, weight_decay: float) -> np.ndarray:
    """The outputs (rows, 2) of SentEval's layer: mean cross entropy and weight decay, by torch."""
    inputs, targets = torch.from_numpy(features).double(), torch.from_numpy(labels)
    layer = torch.nn.Linear(features.shape[1], 2, dtype=torch.float64)
    optimiser = torch.optim.LBFGS(
        layer.parameters(),
        max_iter=5000,
        tolerance_grad=1e-9,
        tolerance_change=0,
        line_search_fn="strong_wolfe",
    )

    def objective() -> torch.Tensor:
        layer.zero_grad()
        loss = torch.nn.functional.cross_entropy(layer(inputs), targets)
        loss = loss + weight_decay / 2 * layer.weight.square().sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    optimiser.step(objective)  # type: ignore[no-untyped-call]
    outputs: np.ndarray = layer(inputs).detach().numpy()
    return outputs


def test_a_larger_penalty_gives_smaller_weights(problem: Make, stratified: Make) -> None:
    features, labels = problem(200, 2, seed=7)
    axes, splits = principal_axes(features), stratified(labels, 4)
    _, coefficients = search_penalties(axes, labels, splits, np.arange(200))
    norms = np.linalg.norm(coefficients[:, 0, :-1], axis=1)
    assert (np.diff(norms) < 0).all()


def test_a_search_that_does_not_converge_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, problem: Make
) -> None:
    monkeypatch.setattr(transfer_tasks, "MOST_STEPS", 2)
    features, labels = problem(200, 2, seed=11)
    with pytest.raises(TrialFailure, match="did not converge"):
        nested_cross_validation(features, labels, folds=5)
