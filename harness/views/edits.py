"""Edits of a sentence: pieces replaced, inserted or deleted (diffcse.md, section 2).

The paper leaves rounding and limits open: the number of pieces is rounded to the nearest integer and at least 1, [CLS]
and [SEP] are never touched, and a row that insertion makes too long is cut.
"""

from collections.abc import Sequence
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.data.batching import TextBatch
from harness.encoders.masked_lm import Generator
from harness.views.corruption import Edited, corrupt
from harness.views.masking import Masker

Edit = Literal["replace", "insert", "delete"]
EDITS: tuple[Edit, ...] = get_args(Edit)


class Editor(nn.Module):
    """Edits every row on its own, anew on every call.

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
        """`masker`: its ratio is the share of the pieces that is edited, whatever the edit.

        `generator`: writes replacements and insertions; only deletion needs none. `longest`: tokens
        of a row, at most. `only_masked`: keep what the generator changes at masked positions only.
        """
        super().__init__()
        assert generator is not None or tuple(edits) == ("delete",), (
            "only deletion has no generator"
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
        parts = {}
        for number, edit in enumerate(self.edits):
            chosen = (kinds == number).nonzero().squeeze(1)
            if len(chosen):
                part = batch.replaced(batch.input_ids[chosen], batch.attention_mask[chosen])
                parts[number] = chosen, self._edit(edit, part)
        return _joined(batch, kinds, list(parts.values()))

    def _edit(self, edit: Edit, batch: TextBatch) -> Edited:
        if self.generator is None or edit == "delete":
            return delete(batch, self.masker.ratio)
        if edit == "replace":
            masked = self.masker(batch.input_ids)
            return corrupt(self.generator, batch, masked, only_masked=self.only_masked)
        open_, places = insert(batch, self.masker.mask_id, self.masker.ratio, self.longest)
        written = self.generator(open_.input_ids, open_.attention_mask)
        filled = torch.where(places, written, open_.input_ids)
        return Edited(
            open_.replaced(filled, open_.attention_mask),
            places.long(),
            torch.zeros_like(filled[:, 0]),
        )


def insert(batch: TextBatch, mask_id: int, ratio: float, longest: int) -> tuple[TextBatch, Tensor]:
    """`ratio` times as many mask tokens as a sentence has pieces, at random places, cut at `longest` tokens.

    The longer rows, and where the masks are, (rows, length) bool.
    """
    lengths = batch.attention_mask.sum(dim=1, keepdim=True)
    added = _share(lengths - 2, ratio)
    place = torch.arange(int((lengths + added).max()), device=lengths.device)
    inserted = _drawn((place > 0) & (place < lengths + added - 1), added)
    source = (place - inserted.cumsum(dim=1)).clamp(max=batch.input_ids.shape[1] - 1)
    ids = torch.where(inserted, mask_id, batch.input_ids.gather(1, source))
    last = (lengths + added).clamp(max=longest) - 1
    ids = torch.where(place == last, batch.input_ids.gather(1, lengths - 1), ids)
    mask = (place <= last).long()[:, :longest]
    return batch.replaced(ids[:, :longest] * mask, mask), (inserted & (place < last))[:, :longest]


def delete(batch: TextBatch, ratio: float) -> Edited:
    """Rows without `ratio` of their pieces; label 1: the token just before was deleted."""
    lengths = batch.attention_mask.sum(dim=1, keepdim=True)
    place = torch.arange(batch.input_ids.shape[1], device=lengths.device)
    deleted = _drawn((place > 0) & (place < lengths - 1), _share(lengths - 2, ratio))
    kept = batch.attention_mask.bool() & ~deleted
    order = (~kept).long().argsort(dim=1, stable=True)[:, : int(kept.sum(dim=1).max())]
    labels = (
        deleted.roll(1, dims=1) & kept
    )  # what rolls from the end to [CLS] is 0: the end is no inner token
    mask = kept.gather(1, order).long()
    ids = batch.input_ids.gather(1, order) * mask
    return Edited(
        batch.replaced(ids, mask), labels.gather(1, order).long(), torch.zeros_like(ids[:, 0])
    )


def _share(pieces: Tensor, ratio: float) -> Tensor:
    return (pieces.double() * ratio).round().long().clamp(min=1)


def _drawn(candidates: Tensor, counts: Tensor) -> Tensor:
    """So many of each row's candidates at random, or all where there are fewer; (rows, length) bool, (rows, 1)."""
    order = (
        torch.rand(candidates.shape, device=candidates.device)
        .masked_fill(~candidates, 2)
        .argsort(dim=1)
    )
    return (order.argsort(dim=1) < counts) & candidates


def _joined(batch: TextBatch, kinds: Tensor, parts: Sequence[tuple[Tensor, Edited]]) -> Edited:
    """Differently edited rows as one batch again; each part with its rows' indices."""
    width = max(part.labels.shape[1] for _, part in parts)
    order = torch.cat([chosen for chosen, _ in parts]).argsort()

    def together(values: Sequence[Tensor]) -> Tensor:
        return torch.cat([functional.pad(value, (0, width - value.shape[1])) for value in values])[
            order
        ]

    ids = together([part.batch.input_ids for _, part in parts])
    mask = together([part.batch.attention_mask for _, part in parts])
    return Edited(batch.replaced(ids, mask), together([part.labels for _, part in parts]), kinds)
