"""Layout of a batch in memory while an encoder works: padded, or its real tokens alone.

An unpadded batch is one row of tokens, (1, tokens, ...), whose rows follow one another, the
shortest first. Linear layers, norms and embeddings see no padding then, but for a tail of less than
TOKENS_MULTIPLE places. Attention works on blocks of rows of about one length, which are padded
again and masked; rows of exactly one length need neither.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function

from harness.encoders.reach import select


def take(values: Tensor, index: Tensor) -> Tensor:
    """The elements values[index]: (count, ...) -> (taken, ...).

    index: (taken,), distinct numbers.
    """
    taken: Tensor = _Take.apply(values, index)  # type: ignore[no-untyped-call]
    return taken


def put(values: Tensor, index: Tensor, count: int) -> Tensor:
    """The inverse of `take`: (taken, ...) -> (count, ...), with 0 where nothing was taken."""
    whole: Tensor = _Put.apply(values, index, count)  # type: ignore[no-untyped-call]
    return whole


class _Take(Function):
    @staticmethod
    def forward(context: Any, values: Tensor, index: Tensor) -> Tensor:
        context.count = len(values)
        context.save_for_backward(index)
        return values.index_select(0, index)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (index,) = context.saved_tensors
        return put(gradients[0], index, context.count), None


class _Put(Function):
    @staticmethod
    def forward(context: Any, values: Tensor, index: Tensor, count: int) -> Tensor:
        context.save_for_backward(index)
        return values.new_zeros(count, *values.shape[1:]).index_copy_(0, index, values)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (index,) = context.saved_tensors
        return take(gradients[0], index), None, None


FAMILIES = (
    "bert", "camembert", "data2vec-text", "distilbert", "electra", "ernie", "roberta",
    "roberta-prelayernorm", "xlm-roberta", "xlm-roberta-xl",
)  # fmt: skip
"""Kinds of models (`model_type`) that know where a token stands by `position_ids` alone.

Others, such as MPNet with its relative positions, would see the row of tokens as one long text."""
MOST_PADDING = {"cpu": 0.2}
"""The most padding in a block, as a share of its positions, by kind of device.

Elsewhere all rows are one block, because many small kernels would be slow on a GPU."""

TOKENS_MULTIPLE = 32
"""The number of tokens in a row is a multiple of this, or one of ROOMS in a captured step.

Libraries prepare a product for every shape that they meet, and keep what they have prepared: a
batch of a new shape is slower, and with a new number of tokens in every step a training took some
megabytes more with each of them."""
ROOMS = 8
"""The most sizes of the row of tokens, of batches with as many places, in a captured step"""


def room_for(tokens: int, places: int) -> int:
    """The size of the row that so many tokens of a batch with so many places get."""
    step = -(-places // ROOMS // TOKENS_MULTIPLE) * TOKENS_MULTIPLE
    return min(places, -(-tokens // max(1, step)) * step)


def unpads(config: Any) -> bool:
    """Whether a model of transformers with this configuration gives the same without padding."""
    # A decoder's tokens must not see later ones, and chunks of a row must all be equally long.
    other = getattr(config, "is_decoder", False) or getattr(config, "chunk_size_feed_forward", 0)
    return config.model_type in FAMILIES and not other


def first_position(model: Any) -> int:
    """Number of the first position of a model of transformers: 0 in BERT.

    The relatives of RoBERTa start behind their padding_idx, which their embeddings keep.
    """
    embeddings = getattr(model, "embeddings", None)
    if isinstance(embeddings, torch.nn.Embedding):  # XLM's words alone
        return 0
    padding = getattr(embeddings, "padding_idx", None)
    return 0 if padding is None else int(padding) + 1


def layout_of(
    attention_mask: Tensor,
    *,
    unpad: bool,
    host_mask: Tensor | None = None,
    masks: bool = False,
    room: int | None = None,
) -> "Padded | Unpadded":
    """Layout in which a model reads rows with this mask, (rows, length).

    unpad: whether it may leave the padding out. host_mask: the mask in the memory of the CPU;
    without it the CPU waits for a GPU. masks: whether it gets a mask also without padding;
    otherwise transformers guesses from the positions of a decoder's tokens where sentences end.
    room: places for the real tokens, where nothing but the shape of the mask is known; None: the
    mask is known.
    """
    if masks:
        return Padded(attention_mask)
    if room is not None:
        return Roomy(attention_mask, room) if unpad else Padded(attention_mask)
    mask = (attention_mask.cpu() if host_mask is None else host_mask).numpy().astype(bool)
    if mask.all():
        return Padded(None)
    # A plugin may hide any token, even all of a row. Here the real ones stand on the left.
    regular = mask[:, 0].all() and not (mask[:, 1:] > mask[:, :-1]).any()
    if not unpad or not regular:
        return Padded(attention_mask)
    return Unpadded(mask, attention_mask.device)


class Padded:
    """States as (rows, length, ...), with something at padding."""

    def __init__(self, attention_mask: Tensor | None) -> None:
        """attention_mask: (rows, length); None: there is no padding."""
        self.mask = None if attention_mask is None else attention_mask.bool()
        """(rows, length): which tokens are real; None: all are"""
        self.arguments: dict[str, Any] = {"attention_mask": attention_mask}
        """Arguments of the model of transformers"""

    def tokens(self, values: Tensor) -> Tensor:
        """Values of every position, (rows, length, ...), as the encoder reads them."""
        return values

    def padded(self, states: Tensor) -> Tensor:
        """The inverse of `tokens`."""
        return states

    def places(self, positions: Tensor) -> Tensor:
        """Indices in the encoder's states of the positions (rows, count) of real tokens."""
        return positions

    def at(self, states: Tensor, where: Tensor | int) -> Tensor:
        """The states of one real token of every row, (rows, 1, H)."""
        return select(states, where)

    def spread(self, values: Tensor, _states: Tensor) -> Tensor:
        """Values of rows, (rows, count), as they meet the states: (rows, 1, count)."""
        return values[:, None]


@dataclass(frozen=True)
class Block:
    """Consecutive rows of an unpadded batch that attention takes at once."""

    rows: int
    """0: the block is the tail"""
    length: int
    """Length of the longest row"""
    tokens: int
    index: Tensor | None = None
    """(tokens,): place of each token among rows * length ones; None: the rows are equally long"""
    mask: Tensor | None = None
    """(rows, 1, length, length) bool: the keys that are real; None: all are"""

    def padded(self, tokens: Tensor) -> Tensor:
        """(tokens, ...) -> (rows, length, ...)."""
        if self.index is not None:
            tokens = put(tokens, self.index, self.rows * self.length)
        return tokens.view(self.rows, self.length, *tokens.shape[1:])

    def unpadded(self, states: Tensor) -> Tensor:
        """The inverse of `padded`."""
        return (
            states.flatten(0, 1) if self.index is None else take(states.flatten(0, 1), self.index)
        )


class Unpadded:
    """States as (1, tokens, ...). It has the methods of `Padded`; states at padding are 0."""

    def __init__(self, mask: np.ndarray, device: torch.device) -> None:
        """mask: (rows, length) bool, with one real token or more on the left of every row."""
        # All numbers are made on the CPU, so that nobody has to wait for a GPU.
        self.device, self.shape = device, mask.shape
        self.mask: Tensor | None = self._moved(mask)
        """(rows, length)"""
        lengths = mask.sum(axis=1)
        order = np.argsort(lengths, kind="stable")
        in_order, column = np.nonzero(mask[order])
        index = order[in_order] * mask.shape[1] + column
        self._tail = -len(index) % TOKENS_MULTIPLE
        # Out of range at padding, which nobody may ask for.
        token = np.full(mask.size, len(index) + self._tail)
        token[index] = np.arange(len(index))
        self.order = self._moved(order)
        """(rows,): the number of each row in the batch, the shortest first"""
        self._index, self._row = self._moved(index), self._moved(order[in_order])
        self._token = self._moved(token.reshape(mask.shape))
        tail = [Block(0, 0, self._tail)] if self._tail else []
        self.blocks = (*self._blocks(lengths[order]), *tail)
        self.arguments: dict[str, Any] = {"attention_mask": None, "unpadded": self}

    def tokens(self, values: Tensor) -> Tensor:
        """(rows, length, ...) -> (1, tokens, ...)."""
        return self._with_tail(take(values.flatten(0, 1), self._index))[None]

    def padded(self, states: Tensor) -> Tensor:
        """(1, tokens, ...) -> (rows, length, ...)."""
        rows, length = self.shape
        whole = put(states[0, : len(self._index)], self._index, rows * length)
        return whole.view(rows, length, *whole.shape[1:])

    def places(self, positions: Tensor) -> Tensor:
        """(rows, count) -> (1, rows * count)."""
        return self._token.gather(1, positions).view(1, -1)

    def at(self, states: Tensor, where: Tensor | int) -> Tensor:
        """(1, tokens, H) -> (rows, 1, H)."""
        if isinstance(where, int):
            where = torch.full_like(self.order, where)
        return take(states[0], self.places(where[:, None])[0])[:, None]

    def spread(self, values: Tensor, states: Tensor) -> Tensor:
        """(rows, count) -> (1, tokens, count), or (rows, 1, count) for the states of `at`."""
        # There is no padding in a batch of one row, so here the first dimension tells them apart.
        if len(states) == len(values):
            return values[:, None]
        return self._with_tail(values[self._row])[None]

    def _with_tail(self, values: Tensor) -> Tensor:
        """Values of the tokens, (tokens, ...), with 0 in the tail."""
        if not self._tail:
            return values
        return torch.cat([values, values.new_zeros(self._tail, *values.shape[1:])])

    def _blocks(self, lengths: np.ndarray) -> Iterator[Block]:
        """lengths: of the rows in their new order."""
        cuts = [*_starts(lengths, MOST_PADDING.get(self.device.type, 1.0)), len(lengths)]
        for start, stop in pairwise(cuts):
            own = lengths[start:stop]
            rows, length, tokens = stop - start, int(own[-1]), int(own.sum())
            if tokens == rows * length:
                yield Block(rows, length, tokens)
                continue
            real = np.arange(length) < own[:, None]
            keys = self._moved(real)[:, None, None].expand(-1, -1, length, -1)
            yield Block(rows, length, tokens, self._moved(np.flatnonzero(real)), keys)

    def _moved(self, numbers: np.ndarray) -> Tensor:
        return torch.from_numpy(numbers).to(self.device, non_blocking=True)


class Roomy(Unpadded):
    """An unpadded batch of which only shapes are known: a row with room for its tokens.

    The real tokens stand in front, those of the first row first. What is left of the room has
    tokens of the padding.
    """

    def __init__(self, attention_mask: Tensor, room: int) -> None:
        """attention_mask: (rows, length). room: at least as many as real tokens, at most all."""
        # Made on the device, from its numbers, and never of a size that follows from them.
        self.device, self.shape = attention_mask.device, tuple(attention_mask.shape)
        mask = attention_mask.bool()
        self.mask = mask
        rows, length = self.shape
        padding = (~mask).to(torch.uint8)
        self._index = padding.flatten().argsort(stable=True)[:room]
        self._row, self._tail = self._index // length, 0
        place = torch.arange(room, device=self.device)
        nowhere = torch.full((rows * length,), room, device=self.device)
        self._token = nowhere.index_copy(0, self._index, place).view(rows, length)
        self.order = torch.arange(rows, device=self.device)
        keys = mask[:, None, None].expand(-1, -1, length, -1)
        self.blocks = (Block(rows, length, room, self._index, keys),)
        self.arguments = {"attention_mask": None, "unpadded": self}


def _starts(lengths: np.ndarray, most: float) -> Iterator[int]:
    """The first row of each block, where `most` of a block's positions may be padding.

    lengths: ascending.
    """
    start = tokens = 0
    yield start
    for row, length in enumerate(lengths):
        if tokens + length < (1 - most) * (row + 1 - start) * length:
            yield row
            start, tokens = row, 0
        tokens += length
