"""Injection of a method into one forward pass of an encoder: prompts, vectors and edits."""

from collections.abc import Callable
from typing import NamedTuple, TypedDict

import torch
from torch import Tensor


class KeyValues(NamedTuple):
    """Keys and values that stand in front of a layer's own, for every layer.

    It is a tuple, in which libraries that shard weights find the tensors of a module's output.
    """

    keys: tuple[Tensor, ...]
    """One tensor for each layer, (rows, heads, prompts, head size)"""
    values: tuple[Tensor, ...]
    """One tensor for each layer, in the shape of its keys"""
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


EmbeddingEdit = Callable[[Tensor], Tensor]
"""Embedding output (rows, length, H) -> the output that the first layer reads instead.

What it gives at padding is not read."""


class WordVectors(NamedTuple):
    """Trained vectors that stand where word embeddings would.

    Position and type embeddings, LayerNorm and dropout follow as for any token.
    """

    positions: Tensor
    """(rows, count): where they stand in each row"""
    vectors: Tensor
    """(count, H): the same vectors for every row"""


class Reach(TypedDict, total=False):
    """Injection of a method into one forward pass. What is left out stays as it is.

    Example:
        encoder.cls(batch, prefix=prompts, position_offset=prompts.length)
    """

    prefix: KeyValues | None
    """Key/value pairs in front of every layer's own"""
    position_offset: int
    """Added to every position (the released prompt methods shift the text by the prompt length)"""
    positions: Tensor | None
    """(rows, length), counted from 0; None: 0, 1, 2, ..."""
    words: WordVectors | None
    """Vectors in the place of word embeddings"""
    edit: EmbeddingEdit | None
    """Changes the embedding output, after its LayerNorm and dropout"""
    mixture: Tensor | None
    """(rows, modules): how much of each adapter module a row gets, as in DiffAug"""
    padding: bool
    """Compute states at padding, too, which some released losses read"""


def first_replaced(vectors: Tensor) -> EmbeddingEdit:
    """An edit that puts vectors (rows, H) over position 0 of the embedding output.

    The vectors keep their gradient (diffcse.md, section 1.3).
    """
    return lambda output: torch.cat([vectors.to(output.dtype)[:, None], output[:, 1:]], dim=1)


class Embedded(Exception):
    """Ends a pass behind the embeddings, whose output it carries."""

    def __init__(self, output: Tensor) -> None:
        """output: of the embeddings, (rows, length, H)."""
        super().__init__()
        self.output = output


def ended(output: Tensor) -> Tensor:
    """An edit that changes nothing, and ends the pass. Raises Embedded."""
    raise Embedded(output)
