"""Dropout. On a CPU its random bits come from numpy, because torch makes them slowly there.

One number of torch's generator starts each mask, so that torch's random state still says all that
dropout draws. On a GPU, torch's dropout draws and multiplies at once.
"""

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

LEVELS = 2**16
"""On a CPU the share that is dropped is a multiple of 1 / LEVELS: each number has 16 random bits"""


class Dropout(nn.Dropout):
    """torch's module with the dropout of this file."""

    def forward(self, states: Tensor) -> Tensor:
        """states: of any shape."""
        return dropped(states, self.p, training=self.training)


def dropped(states: Tensor, rate: float, *, training: bool) -> Tensor:
    """Each number becomes 0 with the probability `rate`, and is divided by 1 - rate otherwise.

    rate: 0 to 1. training: whether anything is dropped at all.
    """
    if not training or not 0 < rate < 1 or states.device.type != "cpu":
        return functional.dropout(states, rate, training)
    return states * _mask(states, rate)


def replace_dropout(model: nn.Module) -> None:
    """Let all dropout modules of a model be those of this file."""
    for module in model.modules():
        if type(module) is nn.Dropout:
            module.__class__ = Dropout


def _mask(states: Tensor, rate: float) -> Tensor:
    """What dropout multiplies states by, in their shape and type."""
    generator = np.random.SFC64(torch.randint(2**63 - 1, (1,)).numpy())
    # Four numbers of the mask are made of one of 64 bits.
    bits = generator.random_raw(-(-states.numel() // 4)).view(np.uint16)[: states.numel()]
    # torch converts bytes several times as fast as its bool.
    kept = torch.from_numpy((bits >= round(rate * LEVELS)).view(np.uint8)).to(states.dtype)
    return kept.mul_(1 / (1 - rate)).view(states.shape)
