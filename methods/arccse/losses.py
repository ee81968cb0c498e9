"""ArcCSE's two losses."""

import math

import torch
from torch import Tensor
from torch.nn import functional

from harness.losses.info_nce import cosines

SMALLEST = 1e-6
"""Below this square of a sine, the margin has no gradient: the root's would have no bound"""


def angular_contrast(first: Tensor, second: Tensor, *, margin: float, temperature: float) -> Tensor:
    """InfoNCE in which the angle of each positive pair is larger (arccse.md, section 1).

    first, second: (N, width). margin: in degrees.
    """
    similarity = cosines(first, second)
    sines = (1 - similarity.square()).clamp(min=SMALLEST).sqrt()
    angle = math.radians(margin)
    widened = similarity * math.cos(angle) - sines * math.sin(angle)
    own = torch.eye(len(first), dtype=torch.bool, device=first.device)
    targets = torch.arange(len(first), device=first.device)
    return functional.cross_entropy(torch.where(own, widened, similarity) / temperature, targets)


def triplet_order(whole: Tensor, near: Tensor, far: Tensor, *, margin: float) -> Tensor:
    """Mean over i of relu(cos(whole_i, far_i) - cos(whole_i, near_i) + margin).

    whole, near, far: (N, width). It is the loss of arccse.md, section 2.
    """
    to_near, to_far = (
        functional.cosine_similarity(whole.float(), each.float()) for each in (near, far)
    )
    return (to_far - to_near + margin).relu().mean()
