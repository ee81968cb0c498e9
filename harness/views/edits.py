"""Edits of a sentence: pieces are replaced, inserted or deleted (diffcse.md, sections 1.2 and 2).

The paper leaves rounding and limits open. Here the number of pieces is rounded to the nearest
integer and is at least 1, [CLS] and [SEP] are never touched, and a row that insertion makes too
long is cut.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.choices import Edit
from harness.data.batching import TextBatch
from harness.encoders.masked_lm import Generator
from harness.views.masking import Masked, Masker


@dataclass(frozen=True)
class Edited:
    """Edited rows, and what a discriminator has to find out about each token."""

    batch: TextBatch
    labels: Tensor
    """(rows, length): 1 where the edit shows, 0 elsewhere and at padding"""
    kinds: Tensor
    """(rows,): which of several edits a row got; 0 where there is one"""


def corrupt(
    generator: Generator, batch: TextBatch, masked: Masked, *, only_masked: bool = False
) -> Edited:
    """Rows in which every piece is the generator's best (diffcse.md, section 1.2).

    only_masked: keep the generator's piece at the chosen positions only.
    """
    best = generator(masked.input_ids, batch.attention_mask, batch.host_mask)
    written = torch.where(masked.chosen, best, batch.input_ids) if only_masked else best
    return compare_pieces(batch, written)


def compare_pieces(batch: TextBatch, written: Tensor) -> Edited:
    """The written rows, with label 1 where a piece differs from the original.

    written: (rows, length). Position 0 keeps its piece, padding becomes id 0, and both have label
    0. A chosen piece that the generator restored counts as not replaced, and a piece that it
    changed without being asked counts as replaced.
    """
    # Slot 0 belongs to the sentence vector. Id 0 at padding is masked, so it is harmless in a
    # vocabulary in which it is another piece (diffcse.md, section 1.2).
    written = torch.cat([batch.input_ids[:, :1], written[:, 1:]], dim=1) * batch.attention_mask
    labels = ((written != batch.input_ids) & batch.attention_mask.bool()).long()
    edited = batch.replaced(written, batch.attention_mask)
    return Edited(edited, labels, kinds=torch.zeros_like(labels[:, 0]))


class Editor(nn.Module):
    """Edits every row on its own, and anew on every call.

    With several kinds of edit, one of them is drawn for each row.
    """

    def __init__(
        self,
        masker: Masker,
        generator: Generator | None,
        *,
        longest: int,
        edits: Sequence[Edit] = ("replace",),
        only_masked: bool = False,
    ) -> None:
        """Keep the parts.

        masker: its ratio is the share of the pieces that is edited, in all edits. generator:
        writes replacements and insertions; None where all edits are deletions. longest: the most
        tokens of a row. only_masked: keep the generator's pieces at masked positions only.
        """
        super().__init__()
        assert generator is not None or tuple(edits) == ("delete",), (
            "every edit but deletion needs a generator"
        )
        self.edits, self.longest, self.only_masked = tuple(edits), longest, only_masked
        self.masker = masker
        self.generator = generator

    def forward(self, batch: TextBatch) -> Edited:
        """The edited rows; `kinds` are indices into `edits`."""
        if len(self.edits) == 1:
            return self._edit(self.edits[0], batch)
        rows = len(batch.input_ids)
        kinds = torch.randint(len(self.edits), (rows,), device=batch.input_ids.device)
        parts = []
        for number, edit in enumerate(self.edits):
            chosen = (kinds == number).nonzero().squeeze(1)
            if len(chosen):
                part = batch.replaced(batch.input_ids[chosen], batch.attention_mask[chosen])
                parts.append((chosen, self._edit(edit, part)))
        return _joined(batch, kinds, parts)

    def _edit(self, edit: Edit, batch: TextBatch) -> Edited:
        if self.generator is None or edit == "delete":
            return delete(batch, self.masker.ratio)
        if edit == "replace":
            masked = self.masker(batch.input_ids)
            return corrupt(self.generator, batch, masked, only_masked=self.only_masked)
        longer, places = insert(batch, self.masker.mask_id, self.masker.ratio, self.longest)
        written = self.generator(longer.input_ids, longer.attention_mask)
        filled = torch.where(places, written, longer.input_ids)
        edited = longer.replaced(filled, longer.attention_mask)
        return Edited(edited, places.long(), kinds=torch.zeros_like(filled[:, 0]))


def insert(batch: TextBatch, mask_id: int, ratio: float, longest: int) -> tuple[TextBatch, Tensor]:
    """Rows with mask tokens at random places, and where these are, (rows, length) bool.

    A row gets `ratio` times as many mask tokens as it has pieces, and is cut at `longest` tokens.

    Example:
        [CLS] a b c [SEP] with the ratio 1/3 -> [CLS] a [MASK] b c [SEP]
    """
    lengths = batch.attention_mask.sum(dim=1, keepdim=True)
    added = _share(lengths - 2, ratio)
    position = torch.arange(int((lengths + added).max()), device=lengths.device)
    inserted = _drawn((position > 0) & (position < lengths + added - 1), added)
    # A place of the longer row reads the original as many places to the left as masks precede it.
    source = (position - inserted.cumsum(dim=1)).clamp(max=batch.input_ids.shape[1] - 1)
    ids = torch.where(inserted, mask_id, batch.input_ids.gather(1, source))
    # The row ends with the original's last token ([SEP]), also where it was cut.
    last = (lengths + added).clamp(max=longest) - 1
    ids = torch.where(position == last, batch.input_ids.gather(1, lengths - 1), ids)
    mask = (position <= last).long()[:, :longest]
    return batch.replaced(ids[:, :longest] * mask, mask), (inserted & (position < last))[
        :, :longest
    ]


def delete(batch: TextBatch, ratio: float) -> Edited:
    """Rows without `ratio` of their pieces. Label 1: the token just before was deleted.

    Example:
        [CLS] a b c [SEP] without b -> [CLS] a c [SEP] with the labels 0 0 1 0
    """
    lengths = batch.attention_mask.sum(dim=1, keepdim=True)
    place = torch.arange(batch.input_ids.shape[1], device=lengths.device)
    deleted = _drawn((place > 0) & (place < lengths - 1), _share(lengths - 2, ratio))
    kept = batch.attention_mask.bool() & ~deleted
    order = (~kept).long().argsort(dim=1, stable=True)[:, : int(kept.sum(dim=1).max())]
    # `roll` takes the last place to [CLS], where it is 0: the last place is never deleted.
    labels = deleted.roll(1, dims=1) & kept
    mask = kept.gather(1, order).long()
    ids = batch.input_ids.gather(1, order) * mask
    edited = batch.replaced(ids, mask)
    return Edited(edited, labels.gather(1, order).long(), kinds=torch.zeros_like(ids[:, 0]))


def _share(pieces: Tensor, ratio: float) -> Tensor:
    """The number of pieces to edit in each row, (rows, 1)."""
    return (pieces.double() * ratio).round().long().clamp(min=1)


def _drawn(candidates: Tensor, counts: Tensor) -> Tensor:
    """`counts` of each row's candidates at random, or all of them where there are fewer.

    candidates: (rows, length) bool; counts: (rows, 1); returns (rows, length) bool.
    """
    # The keys of candidates lie in [0, 1), so those of the others (2) come behind them.
    keys = torch.rand(candidates.shape, device=candidates.device).masked_fill(~candidates, 2)
    order = keys.argsort(dim=1)
    return (order.argsort(dim=1) < counts) & candidates


def _joined(batch: TextBatch, kinds: Tensor, parts: Sequence[tuple[Tensor, Edited]]) -> Edited:
    """Differently edited rows as one batch again; each part with the indices of its rows."""
    width = max(part.labels.shape[1] for _, part in parts)
    order = torch.cat([chosen for chosen, _ in parts]).argsort()

    def together(values: Sequence[Tensor]) -> Tensor:
        padded = [functional.pad(value, (0, width - value.shape[1])) for value in values]
        return torch.cat(padded)[order]

    ids = together([part.batch.input_ids for _, part in parts])
    mask = together([part.batch.attention_mask for _, part in parts])
    return Edited(batch.replaced(ids, mask), together([part.labels for _, part in parts]), kinds)
