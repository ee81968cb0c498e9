"""Optimisers, schedules and clipping rules against their definitions, written out in numpy."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from harness.plugin.stage import Optimisation
from harness.training.optimisers import (
    LOSS_SCALE,
    Lars,
    ReleasedAdamW,
    clip,
    clip_released,
    optimiser,
    parameter_groups,
    rate_factor,
)

RATES = [0.1, 0.5, 0.2, 0.2, 0.0, 0.3]
SHAPES = {"weight": (3, 4), "bias": (3,)}


def stepped(
    method: torch.optim.Optimizer, parameters: dict[str, nn.Parameter], seed: int = 0
) -> list[dict[str, Any]]:
    """Updates with the rates above and random gradients; the gradients."""
    generator, gradients = np.random.default_rng(seed), []
    for rate in RATES:
        drawn = {name: generator.standard_normal(shape) for name, shape in SHAPES.items()}
        for name, parameter in parameters.items():
            parameter.grad = torch.tensor(drawn[name])
        for group in method.param_groups:
            group["lr"] = rate
        method.step()
        gradients.append(drawn)
    return gradients


def fresh() -> dict[str, nn.Parameter]:
    generator = np.random.default_rng(7)
    return {
        name: nn.Parameter(torch.tensor(generator.standard_normal(shape)))
        for name, shape in SHAPES.items()
    }


def values(parameters: dict[str, nn.Parameter]) -> dict[str, np.ndarray]:
    return {name: parameter.detach().numpy().copy() for name, parameter in parameters.items()}


def test_lars() -> None:
    """SimCLR's: trust 0.001, momentum 0.9 on steps with their rate; biases are left alone."""
    parameters = fresh()
    expected, velocity = (
        values(parameters),
        {name: np.zeros(shape) for name, shape in SHAPES.items()},
    )
    gradients = stepped(
        Lars([{"params": list(parameters.values())}], weight_decay=0.02), parameters
    )
    for rate, given in zip(RATES, gradients, strict=True):
        for name, gradient in given.items():
            if name == "weight":
                gradient = gradient + 0.02 * expected[name]
                gradient = (
                    gradient * 0.001 * np.linalg.norm(expected[name]) / np.linalg.norm(gradient)
                )
            velocity[name] = 0.9 * velocity[name] + rate * gradient
            expected[name] = expected[name] - velocity[name]
    for name, value in values(parameters).items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-12)


@pytest.mark.parametrize(("weight", "gradient"), [(0.0, 1.0), (1.0, 0.0)])
def test_lars_does_not_scale_by_a_norm_of_zero(weight: float, gradient: float) -> None:
    parameter = nn.Parameter(torch.full((2, 2), weight))
    parameter.grad = torch.full((2, 2), gradient)
    Lars([{"params": [parameter], "lr": 0.5}]).step()
    assert parameter.detach().equal(torch.full((2, 2), weight - 0.5 * gradient))


@pytest.mark.parametrize("corrected", [True, False])
def test_released_adamw(corrected: bool) -> None:
    """Epsilon before the bias correction, decay of the updated weight by rate times decay."""
    parameters = fresh()
    epsilon, decay = 0.05, 0.1
    expected = values(parameters)
    first, second = ({name: np.zeros(shape) for name, shape in SHAPES.items()} for _ in range(2))
    groups = [{"params": list(parameters.values())}]
    gradients = stepped(
        ReleasedAdamW(groups, epsilon=epsilon, correct_bias=corrected, weight_decay=decay),
        parameters,
    )
    for step, (rate, given) in enumerate(zip(RATES, gradients, strict=True), start=1):
        for name, gradient in given.items():
            first[name] = 0.9 * first[name] + 0.1 * gradient
            second[name] = 0.999 * second[name] + 0.001 * gradient**2
            size = rate * math.sqrt(1 - 0.999**step) / (1 - 0.9**step) if corrected else rate
            expected[name] = expected[name] - size * first[name] / (np.sqrt(second[name]) + epsilon)
            expected[name] = expected[name] - rate * decay * expected[name]
    for name, value in values(parameters).items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-9)


@pytest.mark.parametrize(
    ("name", "first_step"),
    [
        ("adamw", 1e-7 / (1e-7 + 1e-8)),
        ("adamw-released", math.sqrt(0.001) * 1e-7 / (math.sqrt(0.001) * 1e-7 + 1e-8)),
        ("adamw-uncorrected", 0.1 * 1e-7 / (math.sqrt(0.001) * 1e-7 + 1e-6)),
        ("lars", 1e-7),
    ],
)
def test_the_first_step_tells_the_optimisers_apart(name: Any, first_step: float) -> None:
    """A gradient as small as epsilon shows where epsilon stands, its size, and the correction."""
    parameter = nn.Parameter(torch.zeros(1, dtype=torch.float64))
    parameter.grad = torch.full((1,), 1e-7, dtype=torch.float64)
    optimiser(name, [{"params": [parameter], "lr": 1.0}], 0.0).step()
    assert -parameter.item() == pytest.approx(first_step, rel=1e-6)


@pytest.mark.parametrize(
    ("size", "share"), [(1e-4, 0.00065), (1e-5, 0.0065), (1e-6, 0.06)], ids=str
)
def test_how_far_adamw_is_from_the_released_one(size: float, share: float) -> None:
    """The update of step 20 from gradients of one size (simcse.md, section 1.3)."""
    generator = np.random.default_rng(0)
    parameter = nn.Parameter(torch.zeros(1000, dtype=torch.float64))
    adamw = optimiser("adamw", [{"params": [parameter], "lr": 1.0}], 0.0)
    first, second = np.zeros(1000), np.zeros(1000)
    for step in range(1, 21):
        before = parameter.detach().numpy().copy()
        gradient = generator.normal(0, size, 1000)
        parameter.grad = torch.tensor(gradient)
        adamw.step()
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        rate = math.sqrt(1 - 0.999**step) / (1 - 0.9**step)
        released = -rate * first / (np.sqrt(second) + 1e-8)
    update = parameter.detach().numpy() - before
    difference = np.linalg.norm(update - released) / np.linalg.norm(update)
    assert difference == pytest.approx(share, rel=0.05)


def test_biases_and_norms_do_not_decay() -> None:
    weight, bias = nn.Parameter(torch.ones(2, 2)), nn.Parameter(torch.ones(2))
    config = SimpleNamespace(learning_rate=0.1, head_rate=0.2, weight_decay=0.01)
    named = {"learning_rate": [weight, bias], "head_rate": [bias]}
    groups = parameter_groups(named, config, Optimisation())
    found = [(group["params"][0].dim(), group["lr"], group["weight_decay"]) for group in groups]
    assert found == [(2, 0.1, 0.01), (1, 0.1, 0.0), (1, 0.2, 0.0)]
    every = parameter_groups({"learning_rate": [weight, bias]}, config, Optimisation(decays="all"))
    assert [(len(group["params"]), group["lr"]) for group in every] == [(2, 0.1)]
    # A group without a decay of its own has that of the configuration.
    defaults = optimiser("adamw-uncorrected", every, config.weight_decay).param_groups
    assert [group["weight_decay"] for group in defaults] == [0.01]


@pytest.mark.parametrize("warmup", [0, 10])
@pytest.mark.parametrize("update", [0, 1, 9, 10, 11, 50, 99])
def test_rate_factors(update: int, warmup: int) -> None:
    share = (update - warmup) / (100 - warmup)
    expected = {"linear": 1 - share, "cosine": (1 + math.cos(math.pi * share)) / 2, "constant": 1.0}
    for name, factor in expected.items():
        wanted = update / warmup if update < warmup else factor
        assert rate_factor(name, update, warmup, 100) == pytest.approx(wanted)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["linear", "cosine"])
def test_the_rate_stays_zero_after_the_decay(name: Any) -> None:
    assert [rate_factor(name, update, 0, 100) for update in (100, 101, 500)] == [0, 0, 0]


def with_gradients(*gradients: list[float]) -> list[nn.Parameter]:
    parameters = [nn.Parameter(torch.zeros(len(gradient))) for gradient in gradients]
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = torch.tensor(gradient)
    return parameters


def gradients_of(parameters: list[nn.Parameter]) -> list[list[float]]:
    return [parameter.grad.tolist() for parameter in parameters if parameter.grad is not None]


@pytest.mark.parametrize(("largest", "factor"), [(2.5, 0.5), (10.0, 1.0)])
def test_clip(largest: float, factor: float) -> None:
    parameters = with_gradients([3.0], [0.0, 4.0])
    clip(parameters, largest)
    assert np.concatenate(gradients_of(parameters)) == pytest.approx(
        factor * np.array([3.0, 0.0, 4.0]), rel=1e-5
    )


def test_clip_released_counts_the_scaled_gradients_of_all_else() -> None:
    trained, frozen = (
        with_gradients([3.0, 4.0]),
        [*with_gradients([6e-5, 0.0], [8e-5]), nn.Parameter(torch.zeros(2))],
    )
    clip_released(trained, frozen, 1.0)
    norm = math.sqrt(25 + LOSS_SCALE**2 * 1e-8)
    assert LOSS_SCALE == 2**16
    assert gradients_of(trained)[0] == pytest.approx([3 / norm, 4 / norm], rel=1e-5)
    assert np.concatenate(gradients_of(frozen)) == pytest.approx([6e-5, 0.0, 8e-5]), (
        "they are measured, not scaled"
    )


@pytest.mark.parametrize("broken", [math.inf, math.nan])
def test_clip_released_moves_nothing_when_a_frozen_gradient_overflows(broken: float) -> None:
    trained = with_gradients([0.3, 0.4])
    clip_released(trained, with_gradients([1.0, broken]), 1.0)
    assert list(gradients_of(trained)[0]) == [0.0, 0.0]


def test_clip_released_never_enlarges() -> None:
    trained = with_gradients([0.3, 0.4])
    clip_released(trained, with_gradients([0.0]), 1.0)
    assert gradients_of(trained)[0] == pytest.approx([0.3, 0.4])
