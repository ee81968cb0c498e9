"""Decoders as encoders: which tokens see which, and the state that stands for a sentence."""

import torch
from torch import Tensor


def last_positions(attention_mask: Tensor) -> Tensor:
    """The position of the last real token of every row, (rows,); padding is on the right.

    attention_mask: (rows, length).
    """
    return attention_mask.sum(dim=1) - 1


def averaged(states: Tensor, attention_mask: Tensor, *, weighted: bool) -> Tensor:
    """The mean over the real tokens: (rows, length, H) -> (rows, H).

    attention_mask: (rows, length). weighted: token k counts k times, from 1 on.
    """
    weights = attention_mask.cumsum(dim=1) * attention_mask if weighted else attention_mask
    shares = weights.to(states.dtype) / weights.sum(dim=1, keepdim=True)
    return torch.einsum("rlh,rl->rh", states, shares.to(states.dtype))
