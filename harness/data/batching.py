"""Batches: how the word pieces of items become padded tensors.

A batch holds the rows of its items one item after the other: row = item * views + view (simcse.md,
section 1.1).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from harness.choices import Batching
from harness.data.items import batches_in_epoch
from harness.data.tokens import Template, Tokens
from harness.errors import TrialFailure, UserError


@dataclass(frozen=True)
class TextBatch:
    """Rows of word pieces, `views` rows for each item."""

    input_ids: Tensor
    """(rows, length)"""
    attention_mask: Tensor
    """(rows, length): 1 for a token, 0 for padding"""
    items: Tensor
    """(rows / views,): the numbers of these items in their corpus"""
    views: int = 1
    """Rows of an item"""
    labels: Tensor | None = None
    """(rows / views,): the label of each item; None: the corpus has no labels"""
    epoch: int = 0
    """Number of the epoch of the stream, from 0"""
    shuffled_length: int = 0
    """Length of the longest row of the shuffled batch in whose place this one stands; it is that of
    this batch, unless batches are grouped"""
    host_mask: Tensor | None = None
    """The attention mask in the memory of the CPU, for a batch that has gone to a GPU, so that
    nobody has to wait for the GPU to know it; None: it is not known"""
    copies: int = 1
    """Rows, one after the other, that are the same, so that only what an encoder draws at random
    tells them apart"""
    room: int | None = None
    """Places for the real tokens of all rows, as many or more, where no shape may follow from the
    tokens themselves, as in a captured step (harness.training.capture); None: shapes may"""

    def repeated(self, times: int) -> "TextBatch":
        """Every row `times` times in a row, as views of its item.

        The encoder draws a dropout mask for every row, so these views differ by dropout alone.
        """
        repeated = self._each(lambda value: value.repeat_interleave(times, dim=0))
        room = None if self.room is None else self.room * times
        return replace(repeated, views=self.views * times, copies=self.copies * times, room=room)

    @property
    def mask_on_host(self) -> Tensor:
        """The attention mask in the memory of the CPU, which waits for a GPU if need be.

        Raises TrialFailure where no shape may follow from it.
        """
        if self.room is not None:
            raise TrialFailure(
                "this step asks how long the texts of a batch are, which a captured step cannot; "
                "set cuda_graphs=false"
            )
        return self.attention_mask.cpu() if self.host_mask is None else self.host_mask

    def replaced(
        self, input_ids: Tensor, attention_mask: Tensor, host_mask: Tensor | None = None
    ) -> "TextBatch":
        """The same rows with other word pieces; the tensors are (rows, length).

        host_mask: another mask in the memory of the CPU; None: that of this batch, if it is the
        same mask, or else it is not known.
        """
        same = attention_mask is self.attention_mask
        if same:
            host_mask = self.host_mask
        return replace(
            self,
            room=self.room if same else _all_places(self.room, input_ids),
            input_ids=input_ids,
            attention_mask=attention_mask,
            host_mask=host_mask,
            copies=1,
        )

    def rows(self, chosen: slice) -> "TextBatch":
        """Some of the rows, each as an item of its own, without labels."""
        taken = self._part(lambda value: value[chosen])
        items = self.items.repeat_interleave(self.views)[chosen]
        return replace(taken, items=items, views=1, labels=None)

    def view(self, number: int) -> "TextBatch":
        """One view of every item, as a batch of its own."""
        return replace(self._part(lambda value: value[number :: self.views]), views=1, copies=1)

    def split(self, vectors: Tensor) -> tuple[Tensor, ...]:
        """Split vectors of all rows, (rows, ...), into those of each view, (items, ...)."""
        by_item = vectors.view(-1, self.views, *vectors.shape[1:])
        return by_item.unbind(1)

    def to(self, device: torch.device) -> "TextBatch":
        """The same batch on another device."""
        host_mask = None if device.type == "cpu" else self.mask_on_host
        without = replace(self, host_mask=None)  # it stays where it is
        moved = without._changed(lambda value: value.to(device, non_blocking=True))
        return replace(moved, host_mask=host_mask)

    def pinned(self) -> "TextBatch":
        """The same batch in memory from which it goes to a GPU while the CPU goes on."""
        return self._changed(Tensor.pin_memory)

    def _changed(self, change: Callable[[Tensor], Tensor]) -> "TextBatch":
        """The same change of all tensors."""
        tensors = {name: each for name, each in vars(self).items() if isinstance(each, Tensor)}
        changed: dict[str, Any] = {name: change(each) for name, each in tensors.items()}
        return replace(self, **changed)

    def _part(self, change: Callable[[Tensor], Tensor]) -> "TextBatch":
        """Some of the rows."""
        part = self._each(change)
        # Of the rows that are left out nobody knows how many tokens they have.
        most = _all_places(self.room, part.input_ids)
        return part if most is None else replace(part, room=min(most, self.room or 0))

    def _each(self, change: Callable[[Tensor], Tensor]) -> "TextBatch":
        """The same change of the rows of word pieces and masks."""
        host_mask = None if self.host_mask is None else change(self.host_mask)
        ids, mask = change(self.input_ids), change(self.attention_mask)
        return replace(self, input_ids=ids, attention_mask=mask, host_mask=host_mask)


def _all_places(room: int | None, input_ids: Tensor) -> int | None:
    """The room of rows of which only their shape is known; None where it need not be known."""
    return None if room is None else input_ids.numel()


def interleaved(first: TextBatch, second: TextBatch, pad_id: int) -> TextBatch:
    """Join two batches of the same items, with one view each, into one batch with two views.

    Its rows are padded to the longer one of the two.
    """
    width = max(first.input_ids.shape[1], second.input_ids.shape[1])

    def together(one: Tensor, other: Tensor, filling: int) -> Tensor:
        padded = [
            functional.pad(part, (0, width - part.shape[1]), value=filling) for part in (one, other)
        ]
        return torch.stack(padded, dim=1).flatten(0, 1)

    ids = together(first.input_ids, second.input_ids, pad_id)
    mask = together(first.attention_mask, second.attention_mask, 0)
    return replace(
        first,
        input_ids=ids,
        attention_mask=mask,
        views=2,
        host_mask=None,
        room=_all_places(first.room, ids),
    )


def pad(rows: Sequence[np.ndarray], template: Template, pad_id: int) -> tuple[Tensor, Tensor]:
    """Put the template around rows of bare word pieces, and pad them to the longest.

    Returns (input_ids, attention_mask), both (rows, longest row) int64.
    """
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


@dataclass(frozen=True)
class StreamOptions:
    """Options with which a tokenised corpus is cut into batches."""

    limit: int
    """Most word pieces of a sentence, template not counted; the rest of it is cut off"""
    batch_size: int
    """Items in a batch"""
    seed: int
    items: np.ndarray | None = None
    """The numbers of the items that are used (a label subset); None: all items"""
    group: int = 0
    """An epoch has a multiple of this many full batches; 0: a short last batch is kept"""
    text: bool = True
    """Whether rows have word pieces. Without them, a method looks up what it needs by item"""
    batching: Batching = "shuffled"


class Stream:
    """Batches of a tokenised corpus, epoch after epoch, without end.

    They are a function of the seed and of the number of the epoch alone, so a stream can start at
    any batch.
    """

    def __init__(self, tokens: Tokens, template: Template, options: StreamOptions) -> None:
        """Take the items of `tokens`, with `template` around every sentence.

        Raises UserError when the items are too few for one group of batches.
        """
        self.tokens, self.template, self.options = tokens, template, options
        self.items = np.arange(len(tokens)) if options.items is None else options.items
        if len(self) == 0:
            size, group = options.batch_size, options.group
            step = f"{group} x {size}: lower accumulation or" if group > 1 else f"{size}: lower"
            raise UserError(f"{len(self.items)} items are too few for a step on {step} batch_size")

    def __len__(self) -> int:
        """The number of batches in an epoch."""
        return batches_in_epoch(len(self.items), self.options.batch_size, self.options.group)

    def __iter__(self) -> Iterator[TextBatch]:
        return self.batches()

    def batches(self, start: int = 0) -> Iterator[TextBatch]:
        """The endless sequence of batches, from batch number `start` on."""
        # Epochs before `start` are not drawn: a resumed stage begins where it ended, at no cost.
        epoch, first = divmod(start, len(self))
        lengths = self.tokens.item_lengths(self.options.limit)[self.items]
        while True:
            for chosen, longest in self._epoch(epoch, lengths)[first:]:
                batch = self._batch(self.items[chosen])
                yield replace(batch, epoch=epoch, shuffled_length=longest + len(self.template))
            epoch, first = epoch + 1, 0

    def _epoch(self, epoch: int, lengths: np.ndarray) -> list[tuple[np.ndarray, int]]:
        """The items of each batch, and the length of the longest item of a shuffled batch."""
        # A pair, not a sum: epoch 1 of seed 0 must not repeat epoch 0 of seed 1.
        generator = np.random.default_rng((self.options.seed, epoch))
        size = self.options.batch_size
        batches = shuffled = shuffled_batches(len(lengths), size, generator)
        if self.options.group:  # before they are grouped, so that no length is dropped more often
            batches = shuffled = shuffled[: len(self)]
        if self.options.batching == "grouped":
            batches = length_grouped(shuffled, lengths, generator)
        longest = [int(lengths[chosen].max()) for chosen in shuffled]
        return list(zip(batches, longest, strict=True))

    def _batch(self, items: np.ndarray) -> TextBatch:
        if self.options.text:
            return item_batch(self.tokens, self.template, self.options.limit, items)
        # Rows without pieces, so that the batch still has its number of rows.
        columns = self.tokens.columns
        nothing = torch.zeros(len(items) * columns, 0, dtype=torch.long)
        labels = self.tokens.labels_of(items)
        return TextBatch(nothing, nothing, torch.from_numpy(items), columns, labels)


WINDOW = 100
"""Batches whose items are sorted by length together, where batches are grouped.

It is long enough that a batch is nearly free of padding, and short enough that the items of a batch
are a random sample among those of about one length."""


def shuffled_batches(
    items: int, batch_size: int, generator: np.random.Generator
) -> list[np.ndarray]:
    """One epoch of batches, each the numbers of its items; every item occurs once.

    The last batch is short when `batch_size` does not divide the number of items.
    """
    order = generator.permutation(items)
    return [order[at : at + batch_size] for at in range(0, items, batch_size)]


def length_grouped(
    shuffled: Sequence[np.ndarray],
    lengths: np.ndarray,
    generator: np.random.Generator,
    window: int = WINDOW,
) -> list[np.ndarray]:
    """The items of shuffled batches in as many batches, each with items of about one length.

    lengths: (items,), the length of every item. The items of `window` batches are sorted by length
    together. Then the batches are shuffled, so that all but the lengths is random.
    """
    batches: list[np.ndarray] = []
    size = len(shuffled[0])
    for start in range(0, len(shuffled), window):
        chunk = np.concatenate(shuffled[start : start + window])
        # A stable sort: items of equal length stay in their random order, on any machine.
        chunk = chunk[np.argsort(lengths[chunk], kind="stable")]
        batches.extend(chunk[at : at + size] for at in range(0, len(chunk), size))
    # Without this, training would go from short to long sentences over and over again.
    return [batches[index] for index in generator.permutation(len(batches))]


def item_batch(tokens: Tokens, template: Template, limit: int, items: np.ndarray) -> TextBatch:
    """A batch of some items of a corpus. limit: most word pieces of a text without the template."""
    columns = range(tokens.columns)
    rows = [tokens.row(column, item)[:limit] for item in items for column in columns]
    ids, mask = pad(rows, template, tokens.pad_id)
    labels = tokens.labels_of(items)
    return TextBatch(ids, mask, torch.from_numpy(items), tokens.columns, labels)
