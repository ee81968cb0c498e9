"""Snapshots: all of a training between two steps, taken and put back.

Batches are a function of seed and step, so a position in the streams is the number of the step.
"""

from collections.abc import Collection
from dataclasses import asdict, replace
from typing import Any

import torch
from torch import Tensor, nn

from harness.training.optimisers import StageOptimiser
from harness.training.progress import Outcome
from harness.training.saved_state import SavedState, current, state
from harness.training.seeds import random_states, set_random_states


def snapshot(
    method: nn.Module, names: Collection[str], optimiser: StageOptimiser, outcome: Outcome
) -> SavedState:
    """What the training needs to go on from here.

    `names`: the parameters that may have changed. The tensors are not copies.
    """
    kept = asdict(replace(outcome, best_state={}))
    del kept["best_state"]
    return SavedState(
        weights=current(method, names),
        best=outcome.best_state,
        optimiser=_optimiser_tensors(optimiser.torch),
        facts={
            "outcome": kept,
            "random": random_states(),
            "scaler": optimiser.scaler.state_dict(),
        },
    )


def restore(
    saved: SavedState,
    method: nn.Module,
    names: Collection[str],
    optimiser: StageOptimiser,
) -> Outcome:
    """Bring method, optimiser and random sources to the state of a snapshot; its outcome.

    `names`: the parameters that all stages train. Those that the snapshot does not have stay as
    they are, in the best state as well.
    """
    best: dict[str, Tensor] = {}
    if saved.best:
        there = state(method, names)
        best = there | {
            name: value.to(there[name], copy=True) for name, value in saved.best.items()
        }
    method.load_state_dict(saved.weights, strict=False)
    if saved.optimiser:
        _load_optimiser(optimiser.torch, saved.optimiser)
        optimiser.scaler.load_state_dict(saved.facts["scaler"])
    set_random_states(saved.facts["random"])
    return Outcome(**saved.facts["outcome"], best_state=best)


def _optimiser_tensors(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """NUMBER/NAME -> tensor."""
    return {
        f"{number}/{name}": value
        for number, values in optimiser.state_dict()["state"].items()
        for name, value in values.items()
    }


def _load_optimiser(optimiser: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    parameters = [each for group in optimiser.param_groups for each in group["params"]]
    found: dict[int, dict[str, Any]] = {}
    for place, value in tensors.items():
        number, _, name = place.partition("/")
        parameter = parameters[int(number)]
        # A fused optimiser needs its tensors laid out in memory as the parameter is.
        like = parameter if value.shape == parameter.shape else value
        found.setdefault(int(number), {})[name] = torch.empty_like(like).copy_(value)
    optimiser.load_state_dict({**optimiser.state_dict(), "state": found})
