"""How a method reaches into one forward pass of an encoder."""

from collections.abc import Callable
from typing import NamedTuple, TypedDict

import torch
from torch import Tensor

from harness.encoders.attention import KeyValues

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
    """How a method reaches into one forward pass. What is left out stays as it is.

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
    """(rows, modules): how much of each adapter module a row gets (harness.modules.adapters)"""
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
