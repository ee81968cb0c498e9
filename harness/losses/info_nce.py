"""The contrastive loss of the SimCSE family (simcse.md, section 1.2)."""

import torch
from torch import Tensor
from torch.nn import functional


def info_nce(
    anchors: Tensor,
    positives: Tensor,
    hard_negatives: Tensor | None = None,
    *,
    temperature: float,
    hard_negative_weight: float = 0.0,
) -> Tensor:
    """Mean over i of the cross entropy of cos(anchor_i, .) / temperature with target positive_i.

    It is DiffAug's eq. 1, and with hard negatives D2CSE's eq. 1. There is one direction: anchors
    look for positives.

    anchors, positives, hard_negatives: (N, width). The candidates of every anchor are all N
    positives and, where they are given, all N hard negatives. hard_negative_weight: added to the
    logit of an anchor's own hard negative (a log weight; simcse.md, section 2.2).
    """
    candidates = positives if hard_negatives is None else torch.cat([positives, hard_negatives])
    targets = torch.arange(len(anchors), device=anchors.device)
    logits = cosines(anchors, candidates) / temperature
    if hard_negatives is not None and hard_negative_weight:
        own = functional.one_hot(targets + len(anchors), len(candidates))
        logits = logits + hard_negative_weight * own
    return functional.cross_entropy(logits, targets)


def cosines(anchors: Tensor, candidates: Tensor) -> Tensor:
    """The cosine of every anchor with every candidate: (N, width), (M, width) -> (N, M)."""
    # Autocast would multiply in bf16, in which cosines near 1 have steps of 0.004.
    with torch.autocast(anchors.device.type, enabled=False):
        precise = torch.promote_types(anchors.dtype, torch.float32)
        left = functional.normalize(anchors.to(precise), dim=1)
        right = functional.normalize(candidates.to(precise), dim=1)
        return left @ right.T
