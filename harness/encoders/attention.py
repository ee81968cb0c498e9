"""What a method may ask of the self-attention: prompts in every layer, and one position."""

from typing import NamedTuple

import torch
from torch import Tensor


class KeyValues(NamedTuple):
    """Keys and values that stand in front of a layer's own, for every layer.

    It is a tuple, in which libraries that shard weights find the tensors of a module's output.
    """

    keys: tuple[Tensor, ...]
    """One tensor for each layer, (rows, heads, prompts, head size)"""
    values: tuple[Tensor, ...]
    """As `keys`"""
    visible: Tensor | None = None
    """(rows, prompts) bool: which of the prompts a row sees; None: all of them"""

    @property
    def length(self) -> int:
        """Number of prompt positions in a layer."""
        return self.keys[0].shape[2]


def select(states: Tensor, where: Tensor | int) -> Tensor:
    """The states at one position of every row: (rows, ..., length, width) -> (rows, ..., 1, width).

    where: (rows,), or one number for all rows.
    """
    if isinstance(where, int):
        return states[..., where : where + 1, :]
    # A product with ones and zeros instead of `gather`: the result is exact as well, and the
    # gradient of a product is deterministic on a GPU, which that of `gather` is not.
    # `one_hot` would read the largest number, for which the CPU waits.
    places = torch.arange(states.shape[-2], device=where.device)
    chosen = (places == where[:, None]).to(states.dtype)
    # Autocast would round the states.
    with torch.autocast(states.device.type, enabled=False):
        return chosen.view(len(where), *(1,) * (states.dim() - 2), -1) @ states
