"""What a hard prompt alone would put into the mask's vector: PromptBERT's template denoising (diffaug.md, section 2)."""

from typing import Unpack

import torch
from torch import Tensor

from harness.data.batching import TextBatch
from harness.data.tokens import Template
from harness.encoders.backbone import Encoder, Reach
from harness.modules.adapters import LowRankModules
from harness.modules.prefixes import MODULES, PrefixModules


def sentence_lengths(batch: TextBatch, template: Template) -> Tensor:
    """Word pieces of each row without its template, (rows,)."""
    return batch.attention_mask.sum(dim=1) - len(template)


def distinct_lengths(lengths: Tensor) -> tuple[Tensor, Tensor]:
    """The lengths that occur, ascending, and for each row which of them is its own."""
    distinct, inverse = torch.unique(lengths, return_inverse=True)
    return distinct, inverse


def template_vectors(
    encoder: Encoder,
    template: Template,
    lengths: Tensor,
    *,
    shift: bool = True,
    **reach: Unpack[Reach],
) -> Tensor:
    """The mask's state of the bare template for each sentence length, (lengths, H).

    lengths: (lengths,). The part behind the sentence keeps the positions that it has behind a sentence of that length;
    `shift=False` leaves it where the template alone would have it. `reach`: for as many rows. Same mode (dropout,
    gradients) as the main pass; the released codes run lengths that do not occur as well, to no effect.
    """
    device, count = lengths.device, len(lengths)
    ids = torch.tensor((*template.begin, *template.end), device=device).expand(count, -1)
    behind = (torch.arange(len(template), device=device) >= len(template.begin)).long()
    positions = (
        torch.arange(len(template), device=device)
        + behind * (lengths if shift else lengths * 0)[:, None]
    )
    batch = TextBatch(ids, torch.ones_like(ids), torch.arange(count, device=device))
    reach["positions"] = positions
    return encoder.at(batch, template.mask_positions(batch.attention_mask), **reach)


def module_template_vectors(
    encoder: Encoder,
    template: Template,
    augmentation: PrefixModules | LowRankModules,
    texts: TextBatch,
    modules: Tensor | None,
    *,
    released: bool = False,
) -> Tensor:
    """What the template alone gives each row at its length and with its module, (rows, H); diffaug.md, section 2.

    modules: (rows,), or None for both. `released`: count the visible flags as length, and RoBERTa's positions from 0.
    """
    lengths, row = distinct_lengths(sentence_lengths(texts, template))
    count = len(lengths)
    if modules is not None:  # every length with either module
        row = row + modules * count
        modules = torch.arange(MODULES, device=row.device).repeat_interleave(count)
        lengths = lengths.repeat(MODULES)
    reach = augmentation.reach(len(lengths), modules)
    if released:
        lengths = lengths + augmentation.position_offset // MODULES
        reach["position_offset"] = augmentation.position_offset - encoder.first_position
    return template_vectors(encoder, template, lengths, **reach)[row]
