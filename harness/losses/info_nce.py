"""The contrastive loss of the SimCSE family (simcse.md, section 1.2; D2CSE equation 1)."""

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
    """Mean over rows of the cross entropy of cos(anchor_i, .) / temperature with target positive i.

    anchors, positives, hard_negatives: (N, width). The candidates are all N positives and, where given, all N hard
    negatives; one direction only (anchors look for positives). `hard_negative_weight` is added to the logit of an
    anchor's own hard negative (a log weight; SimCSE). Computed in float32.
    """
    candidates = positives if hard_negatives is None else torch.cat([positives, hard_negatives])
    with torch.autocast(
        anchors.device.type, enabled=False
    ):  # it would multiply in bf16: cosines in steps of 0.004
        similarity = (
            functional.normalize(anchors.float(), dim=1)
            @ functional.normalize(candidates.float(), dim=1).T
        )
    targets = torch.arange(len(anchors), device=anchors.device)
    logits = similarity / temperature
    if hard_negatives is not None and hard_negative_weight:
        logits = logits + hard_negative_weight * functional.one_hot(
            targets + len(anchors), len(candidates)
        )
    return functional.cross_entropy(logits, targets)
