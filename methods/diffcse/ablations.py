"""DiffCSE's other objectives: section 5 and appendix B of the paper (diffcse.md, section 2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from harness.losses.corrective import CorrectiveHead, corrective_loss
from harness.losses.info_nce import info_nce
from harness.losses.masked_language import masked_pass_loss
from harness.plugin import Kit, TextBatch
from harness.views.corruption import Edited

from . import Config

if TYPE_CHECKING:
    from .method import Method

Read = Callable[[TextBatch], Tensor]
"""Edited rows -> the discriminator's states, (rows, length, H), given the sentence vectors"""


def detector_for(config: Config, kit: Kit, width: int) -> nn.Module:
    """The output layer of the discriminator.

    Detection has two logits for each kind of edit, the other objectives have a vocabulary.
    """
    if config.objective == "detection":
        return nn.Linear(width, 2 * len(config.edits))
    vocabulary = kit.vocabulary_head()
    return CorrectiveHead(vocabulary, width) if config.objective == "corrective" else vocabulary


def masked_or_corrective_loss(method: Method, texts: TextBatch, read: Read) -> Tensor:
    """Conditional masked-LM, or corrective language modelling, instead of detection."""
    if not isinstance(method.detector, CorrectiveHead):
        return masked_pass_loss(read, method.detector, method.masker, texts)
    edited: Edited = method.editor(texts)
    return corrective_loss(method.detector, read(edited.batch), texts.input_ids, edited)


def augmented_contrast(method: Method, views: TextBatch) -> Tensor:
    """SimCSE with one edited copy of every sentence (appendix B, Table 15).

    views: two rows an item. The copy is a further positive (a second term of the loss), or it is a
    hard negative.
    """
    config = method.config
    edited = method.editor(views.view(0)).batch
    # One call of the head, so that its batch statistics are those of all rows together.
    states = torch.cat([method.encoder.cls(views), method.encoder.cls(edited)])
    vectors = method.head(states)
    plain, changed = vectors[: len(views.input_ids)], vectors[len(views.input_ids) :]
    anchors, positives = views.split(plain)
    if config.objective == "negatives":
        return info_nce(anchors, positives, changed, temperature=config.temperature)
    terms = [
        info_nce(anchors, other, temperature=config.temperature) for other in (positives, changed)
    ]
    return torch.stack(terms).mean()
