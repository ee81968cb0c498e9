"""The contrastive loss of the SimCSE family (baselines.md, section 0; D2CSE equation 1)."""

import torch
from torch import Tensor
from torch.nn import functional


def info_nce(anchors: Tensor, positives: Tensor, hard_negatives: Tensor | None = None, *, temperature: float) -> Tensor:
    """Mean over rows of the cross entropy of cos(anchor_i, .) / temperature with target positive i.

    anchors, positives, hard_negatives: (N, width). The candidates are all N positives and, where given, all N hard
    negatives; one direction only (anchors look for positives). Computed in float32.
    """
    candidates = positives if hard_negatives is None else torch.cat([positives, hard_negatives])
    with torch.autocast(anchors.device.type, enabled=False):  # it would multiply in bf16: cosines in steps of 0.004
        similarity = functional.normalize(anchors.float(), dim=1) @ functional.normalize(candidates.float(), dim=1).T
    targets = torch.arange(len(anchors), device=anchors.device)
    return functional.cross_entropy(similarity / temperature, targets)
