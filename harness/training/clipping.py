"""How gradients are clipped: the plain rule, and the accident in DiffAug's released code."""

import torch
from torch import Tensor, nn

LOSS_SCALE = 65536.0
"""The scale with which torch's fp16 loss scaling starts"""


def clip(parameters: list[nn.Parameter], largest: float) -> None:
    """Scale the gradients so that their joint norm is at most `largest`."""
    nn.utils.clip_grad_norm_(parameters, largest)


def clip_released(parameters: list[nn.Parameter], frozen: list[nn.Parameter], largest: float) -> None:
    """DiffAug's released stage 1 (diffaug.md, 3.1), emulated in float32: the norm that is clipped includes the
    gradients of all other parameters, still multiplied by fp16's loss scale, so the trainable ones become tiny."""
    norm = (_square(parameters) + LOSS_SCALE**2 * _square(frozen)).sqrt()
    factor = (largest / (norm + 1e-6)).clamp(max=1.0)
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad.mul_(factor)


def _square(parameters: list[nn.Parameter]) -> Tensor:
    squares = [parameter.grad.float().square().sum() for parameter in parameters if parameter.grad is not None]
    return torch.stack(squares).sum() if squares else torch.zeros(())
