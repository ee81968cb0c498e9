"""Decoders as encoders: which tokens see which, and the state that stands for a sentence."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

DecoderPooling = Literal["last-token", "mean", "weighted-mean"]
"""What stands for a sentence: the state of its last token, or a mean over its tokens.

weighted-mean: token k counts k times, from 1 on (SGPT, Muennighoff 2022, section 4)."""
DecoderAttention = Literal["causal", "bidirectional"]
"""causal: each token sees those before it, as the model was pretrained. bidirectional: all."""


@dataclass(frozen=True)
class Decoding:
    """How a decoder reads a sentence. It changes nothing in a bidirectional encoder."""

    pooling: DecoderPooling = "last-token"
    attention: DecoderAttention = "causal"


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
