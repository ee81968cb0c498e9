"""Self-attention as products, a softmax and dropout, for training on a CPU.

torch's SDPA is slower there. With dropout it computes in float32 and draws masks in its own way,
and without dropout its backward pass in bf16 is slow (benchmarks/README.md).
"""

import torch
from torch import Tensor

from harness.encoders import dropout


def is_faster(query: Tensor, mask: Tensor | None, rate: float) -> bool:
    """Whether this attention is the faster one, and can read the mask. rate: of dropout."""
    if query.device.type != "cpu" or (mask is not None and mask.dtype != torch.bool):
        return False
    return rate > 0 or (query.dtype == torch.bfloat16 and torch.is_grad_enabled())


def attended(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, *, rate: float, scaling: float
) -> Tensor:
    """What the queries find, (rows, length, heads, head size).

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
    return dropout.dropped(shares, rate, training=rate > 0)
