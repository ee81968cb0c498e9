"""DCLR's noise, and its loss without false negatives."""

import torch
from torch import Tensor
from torch.nn import functional

from harness.losses.info_nce import cosines, info_nce


def hardened(
    noise: Tensor,
    anchors: Tensor,
    positives: Tensor,
    *,
    steps: int,
    rate: float,
    temperature: float,
) -> Tensor:
    """Noise after steps uphill on InfoNCE, of which it is a negative (dclr.md, section 1).

    noise: (K, width); anchors, positives: (N, width). Each vector moves by `rate` in a step, in the
    direction of its gradient. The result is a constant.
    """
    anchors, positives, noise = anchors.detach(), positives.detach(), noise.detach()
    for _ in range(steps):
        noise.requires_grad_()
        with torch.enable_grad():
            loss = info_nce(anchors, positives, noise, temperature=temperature)
        (slope,) = torch.autograd.grad(loss, noise)
        noise = noise.detach() + rate * functional.normalize(slope, dim=1)
    return noise


def debiased_contrast(
    first: Tensor, second: Tensor, noise: Tensor, alike: Tensor, *, temperature: float
) -> Tensor:
    """Mean binary cross entropy of softmax probabilities (dclr.md, section 3).

    first, second: (N, width), the views of the items. noise: (K, width). alike: (N, N) bool, pairs
    that are no negatives; an item and itself always count. The candidates of first_i are all second
    and all noise, and its target is second_i.
    """
    own = torch.eye(len(first), dtype=torch.bool, device=first.device)
    logits = cosines(first, torch.cat([second, noise])) / temperature
    left_out = functional.pad(alike & ~own, (0, len(noise)))
    # The logit 0 stays in the sum, as in the released code.
    probabilities = logits.masked_fill(left_out, 0.0).softmax(dim=1)
    targets = functional.pad(own.to(probabilities.dtype), (0, len(noise)))
    with torch.autocast(first.device.type, enabled=False):
        return functional.binary_cross_entropy(probabilities, targets)
