"""The energy-based hinge loss of PromCSE, the second version of DCPCSE (dcpcse.md, section 2)."""

import torch
from torch import Tensor

from harness.losses.info_nce import cosines


def energy_hinge(
    anchors: Tensor, positives: Tensor, hard_negatives: Tensor, *, margin: float
) -> Tensor:
    """Mean over i of max(0, margin - cos(anchor_i, positive_i) + the highest other cosine).

    The other cosines of anchor_i are those with the positives of all other anchors, and with all
    hard negatives. The energy of a pair is minus its cosine, without a temperature.

    anchors, positives, hard_negatives: (N, width). margin: on the scale of cosines.
    """
    similarity = cosines(anchors, torch.cat([positives, hard_negatives]))
    own = torch.eye(*similarity.shape, dtype=torch.bool, device=similarity.device)
    highest = similarity.masked_fill(own, -torch.inf).amax(dim=1)
    return (margin - similarity.diagonal() + highest).clamp(min=0).mean()
