"""DiffCSE's other objectives: section 5 and appendix B of the paper (diffcse.md, section 2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.encoders.masked_lm import VocabularyHead
from harness.losses.info_nce import info_nce
from harness.losses.masked_language import masked_pass_loss
from harness.plugin import Kit, TextBatch
from harness.views.edits import Edited

from . import Config

if TYPE_CHECKING:
    from .method import Method

Read = Callable[[TextBatch], Tensor]
"""Edited rows -> the discriminator's states, (rows, length, H), given the sentence vectors"""


class CorrectiveHead(nn.Module):
    """p(piece) = g * [piece is the one that was read] + (1 - g) * softmax(piece), as in COCO-LM.

    The gate g is the sigmoid of a linear map of the state.
    """

    def __init__(self, vocabulary: VocabularyHead, hidden_size: int) -> None:
        """vocabulary: gives the logits of the softmax. hidden_size: of the states."""
        super().__init__()
        self.vocabulary, self.gate = vocabulary, nn.Linear(hidden_size, 1)

    def forward(self, states: Tensor, read: Tensor, wanted: Tensor) -> Tensor:
        """Log-probabilities of the pieces `wanted` where the pieces `read` stand, (tokens,).

        states: (tokens, H); read, wanted: (tokens,).
        """
        # All in logarithms: 1 - g and the softmax can both be too small for a float32.
        gate = self.gate(states).float().squeeze(1)
        logits = self.vocabulary(states).float()
        softmax = -functional.cross_entropy(logits, wanted, reduction="none")
        written = functional.logsigmoid(-gate) + softmax
        copied = torch.logaddexp(functional.logsigmoid(gate), written)
        return torch.where(read == wanted, copied, written)


def corrective_loss(
    head: CorrectiveHead, states: Tensor, originals: Tensor, edited: Edited
) -> Tensor:
    """Mean over the real tokens of -log p(original piece).

    states: (rows, length, H); originals: (rows, length).
    """
    real = edited.batch.attention_mask.bool()
    log_probabilities: Tensor = head(states[real], edited.batch.input_ids[real], originals[real])
    return -log_probabilities.mean()


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
