"""Corrective language modelling with a copy gate, as in COCO-LM (diffcse.md, section 2)."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.encoders.masked_lm import VocabularyHead
from harness.views.corruption import Edited


class CorrectiveHead(nn.Module):
    """p(piece) = g * [piece is the one that was read] + (1 - g) * softmax(piece).

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
