"""Snapshots: all of a training between two steps, taken and put back.

Batches are a function of seed and step, so a position in the streams is the number of the step.
"""

from collections.abc import Collection
from dataclasses import asdict, replace

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
        optimiser=optimiser.tensors(),
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
    """Bring optimiser and random sources to the state of a snapshot; its outcome.

    The method has the weights of the snapshot already. `names`: the parameters that all stages
    train. Those that the snapshot does not have stay as they are in the best state.
    """
    best: dict[str, Tensor] = {}
    if saved.best:
        there = state(method, names)
        best = there | {
            name: value.to(there[name], copy=True) for name, value in saved.best.items()
        }
    if saved.optimiser:
        optimiser.load(saved.optimiser)
        if scaling := saved.facts["scaler"]:  # empty where losses were not scaled
            optimiser.scaler.load_state_dict(scaling)
    set_random_states(saved.facts["random"])
    return Outcome(**saved.facts["outcome"], best_state=best)
