"""Replaced-token detection: masking, corruption by a generator, and the loss (diffcse.md, 1.2 to 1.4)."""

import torch
from torch import Tensor
from torch.nn import functional

from harness.data.batching import TextBatch
from harness.encoders.masked_lm import Generator


def mask_tokens(input_ids: Tensor, special_ids: Tensor, mask_id: int, vocabulary_size: int, ratio: float) -> Tensor:
    """Each non-special token is chosen with probability `ratio`; of the chosen 80 % become the mask token, 10 % a
    random piece, 10 % stay. (rows, length) -> (rows, length)."""
    candidates = ~torch.isin(input_ids, special_ids)
    chosen = (torch.rand(input_ids.shape, device=input_ids.device) < ratio) & candidates
    how = torch.rand(input_ids.shape, device=input_ids.device)
    random_ids = torch.randint(vocabulary_size, input_ids.shape, device=input_ids.device)
    masked = torch.where(chosen & (how < 0.8), mask_id, input_ids)
    return torch.where(chosen & (how >= 0.9), random_ids, masked)


def corrupt(generator: Generator, batch: TextBatch, masked: Tensor) -> tuple[TextBatch, Tensor]:
    """The generator's best piece at every position -> (edited batch, labels); labels (rows, length), 1 = replaced.

    Position 0 keeps its piece and padding becomes id 0; both are labelled 0. A chosen token that the generator
    restores counts as not replaced, an unchosen one that it changes as replaced.
    """
    edited = generator(masked, batch.attention_mask)
    edited[:, 0] = batch.input_ids[:, 0]
    edited = edited * batch.attention_mask
    labels = ((edited != batch.input_ids) & batch.attention_mask.bool()).long()
    return TextBatch(edited, batch.attention_mask, batch.items, batch.views), labels


def replaced_token_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross entropy over two classes, averaged over all rows and positions, padding included (the released code).

    logits: (rows, length, 2); labels: (rows, length).
    """
    return functional.cross_entropy(logits.float().flatten(0, 1), labels.flatten())
