"""Sentences in which a generator has replaced tokens, and which tokens those are (diffcse.md, section 1.2)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from harness.data.batching import TextBatch
from harness.encoders.masked_lm import Generator
from harness.views.masking import Masked


@dataclass(frozen=True)
class Edited:
    """Edited rows, and what is to be found out about each token."""

    batch: TextBatch
    labels: Tensor
    """(rows, length): 1 where the edit shows, 0 elsewhere and at padding"""
    kinds: Tensor
    """(rows,): which of several edits was made (harness.views.edits); 0 where there is one"""


def corrupt(
    generator: Generator, batch: TextBatch, masked: Masked, *, only_masked: bool = False
) -> Edited:
    """The generator's best piece at every position, or with `only_masked` at the chosen ones."""
    best = generator(masked.input_ids, batch.attention_mask)
    return compared(
        batch, torch.where(masked.chosen, best, batch.input_ids) if only_masked else best
    )


def compared(batch: TextBatch, written: Tensor) -> Edited:
    """Label 1 = replaced: the piece differs from the original; written: (rows, length).

    Position 0 keeps its piece and padding becomes id 0; both are labelled 0. A chosen token that the generator
    restores counts as not replaced, an unchosen one that it changes as replaced.
    """
    written = torch.cat([batch.input_ids[:, :1], written[:, 1:]], dim=1) * batch.attention_mask
    labels = ((written != batch.input_ids) & batch.attention_mask.bool()).long()
    return Edited(
        batch.replaced(written, batch.attention_mask), labels, torch.zeros_like(labels[:, 0])
    )
