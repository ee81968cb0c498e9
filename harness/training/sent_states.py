"""A saved training that rank 0 has read, sent to the other ranks."""

from collections.abc import Callable
from dataclasses import fields, replace

import torch
import torch.distributed as dist
from torch import Tensor

from harness.ranks import agreed, rank_count, rank_number
from harness.training.saved_state import SavedState


def from_rank_0(saved: SavedState | None) -> SavedState | None:
    """What rank 0 has, in every rank; the others may give None."""
    if rank_count() == 1:
        return saved
    shapes = agreed(saved and _with(saved, lambda value: torch.empty_like(value, device="meta")))
    if shapes is None or rank_number() > 0:
        saved = shapes and _with(shapes, lambda value: torch.empty_like(value, device="cpu"))
    if saved is not None:
        _with(saved, _sent)
    return saved


def _with(saved: SavedState, change: Callable[[Tensor], Tensor]) -> SavedState:
    """The same state with `change` of every tensor, in an order that all ranks share."""
    parts = {
        each.name: {name: change(value) for name, value in getattr(saved, each.name).items()}
        for each in fields(saved)
        if each.name != "facts"
    }
    return replace(saved, **parts)


def _sent(value: Tensor) -> Tensor:
    dist.broadcast(value, src=0)
    return value
