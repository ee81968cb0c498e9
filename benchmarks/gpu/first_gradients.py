"""The gradients with which optimisers take their first steps."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_pre_hook

Gradients = list[list[Tensor]]
"""Gradients of each optimiser, in the order in which they take their first steps, after clipping"""


@contextmanager
def first_gradients() -> Iterator[Gradients]:
    """Give the list into which the block's optimisers put the gradients of their first steps."""
    seen: list[torch.optim.Optimizer] = []
    gradients: Gradients = []

    def note(optimiser: torch.optim.Optimizer, *_: Any) -> None:
        if optimiser in seen:
            return
        seen.append(optimiser)
        weights = [weight for group in optimiser.param_groups for weight in group["params"]]
        gradients.append([weight.grad.clone() for weight in weights if weight.grad is not None])

    hook = register_optimizer_step_pre_hook(note)
    try:
        yield gradients
    finally:
        hook.remove()


def farthest_gradient(one: Sequence[list[Tensor]], other: Sequence[list[Tensor]]) -> float:
    """The largest difference of a tensor of gradients, as a share of its norm."""
    distances = [
        (mine - others).norm() / mine.norm()
        for first, second in zip(one, other, strict=True)
        for mine, others in zip(first, second, strict=True)
    ]
    return float(torch.stack(distances).max())  # Python's max could lose a NaN
