"""Sentences in which a generator replaced tokens, and which tokens those are.

The corruption is that of diffcse.md, section 1.2.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from harness.data.batching import TextBatch
from harness.encoders.masked_lm import Generator
from harness.views.masking import Masked


@dataclass(frozen=True)
class Edited:
    """Edited rows, and what a discriminator has to find out about each token."""

    batch: TextBatch
    labels: Tensor
    """(rows, length): 1 where the edit shows, 0 elsewhere and at padding"""
    kinds: Tensor
    """(rows,): which of several edits a row got (harness.views.edits); 0 where there is one"""


def corrupt(
    generator: Generator, batch: TextBatch, masked: Masked, *, only_masked: bool = False
) -> Edited:
    """Rows in which every piece is the generator's best.

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
