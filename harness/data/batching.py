"""Batches: which items meet, and how their word pieces become padded tensors."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from harness.data.tokens import Template, Tokens

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

    def repeated(self, times: int) -> "TextBatch":
        """Every row `times` times, one after the other: the views that differ by dropout alone."""
        return TextBatch(
            self.input_ids.repeat_interleave(times, dim=0),
            self.attention_mask.repeat_interleave(times, dim=0),
            self.items,
            self.views * times,
            self.labels,
        )

    def to(self, device: torch.device) -> "TextBatch":
        """The same batch on a device."""
        moved = [value.to(device, non_blocking=True) for value in (self.input_ids, self.attention_mask, self.items)]
        labels = None if self.labels is None else self.labels.to(device, non_blocking=True)
        return TextBatch(moved[0], moved[1], moved[2], self.views, labels)


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


class Stream:
    """Batches of a tokenised corpus, epoch after epoch, without end."""

    def __init__(self, tokens: Tokens, template: Template, max_length: int, batch_size: int, seed: int) -> None:
        """`max_length` counts the template; longer sentences are cut on the right."""
        self.tokens = tokens
        self.template = template
        self.limit = max(1, max_length - len(template))
        self.batch_size = batch_size
        self.seed = seed

    def __len__(self) -> int:
        """Batches in an epoch."""
        return -(-len(self.tokens) // self.batch_size)

    def __iter__(self) -> Iterator[TextBatch]:
        lengths = self.tokens.item_lengths(self.limit)
        epoch = 0
        while True:
            generator = np.random.default_rng((self.seed, epoch))
            for items in length_grouped(lengths, self.batch_size, generator):
                yield self._batch(items)
            epoch += 1

    def _batch(self, items: np.ndarray) -> TextBatch:
        rows = [self.tokens.row(column, item)[: self.limit] for item in items for column in range(self.tokens.columns)]
        ids, mask = pad(rows, self.template, self.tokens.pad_id)
        labels = None if self.tokens.labels is None else torch.from_numpy(self.tokens.labels[items])
        return TextBatch(ids, mask, torch.from_numpy(items), self.tokens.columns, labels)
