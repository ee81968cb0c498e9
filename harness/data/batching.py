"""Batches: which items meet, and how their word pieces become padded tensors."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from harness.data.tokens import Template, Tokens
from harness.errors import UserError

WINDOW = 100
"""Batches drawn together before their items are sorted by length: long enough that a batch is nearly free of
padding, short enough that its items are a random sample of one length."""


@dataclass(frozen=True)
class TextBatch:
    """Rows of word pieces; row = item * views + view."""

    input_ids: Tensor
    """(rows, length)"""
    attention_mask: Tensor
    """(rows, length): 1 for a token, 0 for padding"""
    items: Tensor
    """(rows / views,): which items of the corpus these are"""
    views: int = 1
    labels: Tensor | None = None
    """(rows / views,)"""
    epoch: int = 0
    """Epoch number of the stream, from 0"""

    def repeated(self, times: int) -> "TextBatch":
        """Every row `times` times, one after the other: the views that differ by dropout alone."""
        ids, mask = (
            value.repeat_interleave(times, dim=0) for value in (self.input_ids, self.attention_mask)
        )
        return replace(self, input_ids=ids, attention_mask=mask, views=self.views * times)

    def replaced(self, input_ids: Tensor, attention_mask: Tensor) -> "TextBatch":
        """Other word pieces for the same rows."""
        return replace(self, input_ids=input_ids, attention_mask=attention_mask)

    def view(self, number: int) -> "TextBatch":
        """One view of every item, as a batch of its own."""
        ids, mask = self.input_ids[number :: self.views], self.attention_mask[number :: self.views]
        return replace(self, input_ids=ids, attention_mask=mask, views=1)

    def split(self, vectors: Tensor) -> tuple[Tensor, ...]:
        """Vectors of all rows, (rows, ...), as those of each view, (items, ...)."""
        by_item = vectors.view(-1, self.views, *vectors.shape[1:])
        return by_item.unbind(1)

    def to(self, device: torch.device) -> "TextBatch":
        """The same batch on a device."""
        moved = [
            value.to(device, non_blocking=True)
            for value in (self.input_ids, self.attention_mask, self.items)
        ]
        labels = None if self.labels is None else self.labels.to(device, non_blocking=True)
        return replace(
            self, input_ids=moved[0], attention_mask=moved[1], items=moved[2], labels=labels
        )


def interleaved(first: TextBatch, second: TextBatch, pad_id: int) -> TextBatch:
    """Two batches with one view each of the same items as one with both, padded to the longer one."""
    width = max(first.input_ids.shape[1], second.input_ids.shape[1])

    def together(one: Tensor, other: Tensor, filling: int) -> Tensor:
        padded = [
            functional.pad(part, (0, width - part.shape[1]), value=filling) for part in (one, other)
        ]
        return torch.stack(padded, dim=1).flatten(0, 1)

    ids = together(first.input_ids, second.input_ids, pad_id)
    mask = together(first.attention_mask, second.attention_mask, 0)
    return replace(first, input_ids=ids, attention_mask=mask, views=2)


def pad(rows: Sequence[np.ndarray], template: Template, pad_id: int) -> tuple[Tensor, Tensor]:
    """Rows of bare word pieces -> (input_ids, attention_mask), each (rows, longest), the template around each row."""
    begin, end, around = template.begin, template.end, len(template)
    lengths = np.fromiter((len(row) for row in rows), np.int64, len(rows)) + around
    width = int(lengths.max())
    ids = np.full((len(rows), width), pad_id, np.int64)
    ids[:, : len(begin)] = begin
    for index, row in enumerate(rows):
        stop = len(begin) + len(row)
        ids[index, len(begin) : stop] = row
        ids[index, stop : stop + len(end)] = end
    mask = (np.arange(width) < lengths[:, None]).astype(np.int64)
    return torch.from_numpy(ids), torch.from_numpy(mask)


def length_grouped(
    lengths: np.ndarray, batch_size: int, generator: np.random.Generator, window: int = WINDOW
) -> list[np.ndarray]:
    """One epoch of batches of item indices; every item once, the last batch short when they do not divide.

    Items are shuffled, cut into windows of `window` batches, sorted by length within a window, and the batches are
    shuffled again, so that neighbours in a batch are equally long and all else is random.
    """
    order = generator.permutation(len(lengths))
    batches: list[np.ndarray] = []
    span = window * batch_size
    for start in range(0, len(order), span):
        chunk = order[start : start + span]
        chunk = chunk[np.argsort(lengths[chunk], kind="stable")]
        batches.extend(chunk[at : at + batch_size] for at in range(0, len(chunk), batch_size))
    return [batches[index] for index in generator.permutation(len(batches))]


def batches_in_epoch(items: int, batch_size: int, group: int = 0) -> int:
    """Batches in an epoch over so many items.

    `group`: only full batches count, and only a multiple of `group` of them; 0: a short last batch
    counts, too.
    """
    if group == 0:
        return -(-items // batch_size)
    return items // (batch_size * group) * group


@dataclass(frozen=True)
class StreamOptions:
    """How a tokenised corpus is cut into batches."""

    limit: int
    """Most word pieces of a sentence, template not counted; longer ones are cut on the right"""
    batch_size: int
    """Items in a batch"""
    seed: int
    items: np.ndarray | None = None
    """Numbers of the items that are used (a label subset); None: all"""
    group: int = 0
    """Only full batches, and a multiple of this many in an epoch; 0: a short last batch is kept"""
    text: bool = True
    """Whether rows have word pieces; without, a method looks up what it needs by item"""


class Stream:
    """Batches of a tokenised corpus, epoch after epoch, without end."""

    def __init__(self, tokens: Tokens, template: Template, options: StreamOptions) -> None:
        """`template`: what stands around every sentence.

        Raises UserError when there are too few items for one group of batches.
        """
        self.tokens, self.template, self.options = tokens, template, options
        self.items = np.arange(len(tokens)) if options.items is None else options.items
        if len(self) == 0:
            size, group = options.batch_size, options.group
            wanted = f"{group} x {size}" if group > 1 else str(size)
            raise UserError(
                f"{len(self.items)} items are too few for a step on {wanted}: lower batch_size"
            )

    def __len__(self) -> int:
        """Batches in an epoch."""
        return batches_in_epoch(len(self.items), self.options.batch_size, self.options.group)

    def __iter__(self) -> Iterator[TextBatch]:
        return self.batches()

    def batches(self, start: int = 0) -> Iterator[TextBatch]:
        """Batch number `start` of the endless sequence, and all after it."""
        epoch, first = divmod(start, len(self))
        lengths = (
            self.tokens.item_lengths(self.options.limit)[self.items]
            if self.options.text
            else np.zeros(len(self.items), np.int64)
        )
        while True:
            generator = np.random.default_rng((self.options.seed, epoch))
            batches = length_grouped(lengths, self.options.batch_size, generator)
            if self.options.group:
                batches = [chosen for chosen in batches if len(chosen) == self.options.batch_size][
                    : len(self)
                ]
            for chosen in batches[first:]:
                yield replace(self._batch(self.items[chosen]), epoch=epoch)
            epoch, first = epoch + 1, 0

    def _batch(self, items: np.ndarray) -> TextBatch:
        columns = self.tokens.columns
        labels = None if self.tokens.labels is None else torch.from_numpy(self.tokens.labels[items])
        if not self.options.text:
            nothing = torch.zeros(len(items) * columns, 0, dtype=torch.long)
            return TextBatch(nothing, nothing, torch.from_numpy(items), columns, labels)
        rows = [
            self.tokens.row(column, item)[: self.options.limit]
            for item in items
            for column in range(columns)
        ]
        ids, mask = pad(rows, self.template, self.tokens.pad_id)
        return TextBatch(ids, mask, torch.from_numpy(items), columns, labels)
