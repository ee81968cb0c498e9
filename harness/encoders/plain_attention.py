"""Dropout and self-attention for training on a CPU, where torch is slow (benchmarks/README.md).

Dropout takes its random bits from numpy. One number of torch's generator starts each mask, so that
torch's random state still says all that dropout draws. On a GPU, torch's dropout draws and
multiplies at once. Attention is products, a softmax and dropout: with dropout, torch's SDPA
computes in float32 and draws masks in its own way, and without dropout its backward pass in bf16 is
slow.
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
    """Factors of dropout, in the shape and type of the states."""
    generator = np.random.SFC64(torch.randint(2**63 - 1, (1,)).numpy())
    # Four numbers of the mask are made of one of 64 bits.
    bits = generator.random_raw(-(-states.numel() // 4)).view(np.uint16)[: states.numel()]
    # torch converts bytes several times as fast as its bool.
    kept = torch.from_numpy((bits >= round(rate * LEVELS)).view(np.uint8)).to(states.dtype)
    return kept.mul_(1 / (1 - rate)).view(states.shape)


def is_faster(query: Tensor, mask: Tensor | None, rate: float) -> bool:
    """Whether this attention is the faster one, and can read the mask. rate: of dropout."""
    if query.device.type != "cpu" or (mask is not None and mask.dtype != torch.bool):
        return False
    return rate > 0 or (query.dtype == torch.bfloat16 and torch.is_grad_enabled())


def attended(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, *, rate: float, scaling: float
) -> Tensor:
    """Result of the attention, (rows, length, heads, head size).

    query, key, value: (rows, heads, length, head size); several heads of queries may share one of
    keys and values. mask: (rows, 1, length, keys) bool, which keys a query sees; None: all. rate:
    of the dropout of probabilities, 0 to 1. scaling: of the scores.
    """
    # Its module takes seconds to import; here a model has imported it.
    from transformers.integrations.sdpa_attention import repeat_kv

    groups = query.shape[1] // key.shape[1]
    key, value = repeat_kv(key, groups), repeat_kv(value, groups)
    shares = probabilities((query * scaling) @ key.transpose(2, 3), mask, rate)
    return (shares @ value).transpose(1, 2)


def probabilities(scores: Tensor, mask: Tensor | None, rate: float) -> Tensor:
    """Scores to shares of the keys, in the same type: a softmax over those that are seen, dropout.

    scores: (..., keys). mask: bool, of a shape that broadcasts to that of the scores.
    """
    if mask is not None:
        # Not minus infinity: in a row whose mask hides all keys, it would give NaN.
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    exact = torch.promote_types(scores.dtype, torch.float32)
    shares = scores.softmax(dim=-1, dtype=exact).to(scores.dtype)
    return dropped(shares, rate, training=rate > 0)
