"""The self-attention of a last layer of which only one position of every row is read.

The query q of a head meets the key W x + b of a token x as q (W x + b) = (q W) x + q b, and what it
finds is the sum of p (W x + b) = W (sum of p x) + b (sum of p), with the probabilities p. So the
weights W of keys and values need to meet each row once, and not each of its tokens. This is exact,
and leaves hardly any work for each token.
"""

from typing import Any, Protocol

import torch
from torch import Tensor, nn

from harness.encoders import unpadding
from harness.encoders.attention import KeyValues
from harness.encoders.plain_attention import probabilities
from harness.encoders.unpadding import Padded, Unpadded

WITH_BERT_ATTENTION = tuple(kind for kind in unpadding.FAMILIES if kind != "distilbert")
"""Kinds of models (`model_type`) whose layers have BERT's attention, with its names"""


def attended_at(
    module: Any,
    states: Tensor,
    layout: Padded | Unpadded,
    where: Tensor | int,
    prefix: KeyValues | None,
) -> Tensor:
    """What one query of every row finds, (rows, 1, H).

    module: BERT's attention. states: what it reads, as they lie in `layout`. where: (rows,), the
    positions that ask, or one for all rows. prefix: keys and values in front of every layer's own.
    """
    heads, number = module.num_attention_heads, module.layer_idx
    # In the letters of einsum r is for rows, h for heads, l for tokens, w for H, s for H / heads.
    query = module.query(layout.at(states, where)).view(-1, heads, module.attention_head_size)
    query = query * module.scaling
    text = (_Folded if _folds(module) else _Projected)(module, states.to(query.dtype), layout)
    scores, mask = text.scores(query), layout.mask
    if prefix is not None:
        front = torch.einsum("rhs,rhls->rhl", query, prefix.keys[number].to(query.dtype))
        scores = torch.cat([front.to(scores.dtype), scores], dim=-1)
        mask = _widened(mask, prefix, scores)
    rate = module.dropout.p if module.training else 0.0
    shares = probabilities(scores, None if mask is None else mask[:, None], rate)
    if prefix is None:
        return text.found(shares).flatten(1)[:, None]
    front, own = shares[..., : prefix.length], shares[..., prefix.length :]
    values = prefix.values[number].to(query.dtype)
    found = text.found(own) + torch.einsum("rhl,rhls->rhs", front, values)
    return found.flatten(1)[:, None]


class _Text(Protocol):
    """Keys and values of a row's own tokens."""

    def scores(self, query: Tensor) -> Tensor:
        """(rows, heads, H / heads) -> (rows, heads, length)."""

    def found(self, shares: Tensor) -> Tensor:
        """(rows, heads, length) -> (rows, heads, H / heads)."""


class _Folded(_Text):
    """They are never made: their weights meet the queries, and the sums of states."""

    def __init__(self, module: Any, states: Tensor, layout: Padded | Unpadded) -> None:
        self._heads = module.num_attention_heads
        self._key, self._value = module.key, module.value
        self._states = layout.padded(states)

    def scores(self, query: Tensor) -> Tensor:
        weight, bias = self._of_heads(self._key)
        folded = torch.einsum("rhs,hsw->rhw", query, weight)
        return folded @ self._states.transpose(1, 2) + (query * bias).sum(-1, keepdim=True)

    def found(self, shares: Tensor) -> Tensor:
        weight, bias = self._of_heads(self._value)
        found = torch.einsum("rhw,hsw->rhs", shares @ self._states, weight)
        return found + shares.sum(-1, keepdim=True) * bias

    def _of_heads(self, layer: nn.Linear) -> tuple[Tensor, Tensor]:
        """The weight, (heads, H / heads, H), and the bias, (heads, H / heads)."""
        weight = layer.weight.view(self._heads, -1, layer.in_features)
        return weight, layer.bias.view(self._heads, -1)


class _Projected(_Text):
    """They are made for all tokens, by modules that may be more than their weights."""

    def __init__(self, module: Any, states: Tensor, layout: Padded | Unpadded) -> None:
        made = [layout.padded(each(states)) for each in (module.key, module.value)]
        shape = (*made[0].shape[:2], module.num_attention_heads, module.attention_head_size)
        self._keys, self._values = (each.view(shape) for each in made)

    def scores(self, query: Tensor) -> Tensor:
        return torch.einsum("rhs,rlhs->rhl", query, self._keys)

    def found(self, shares: Tensor) -> Tensor:
        return torch.einsum("rhl,rlhs->rhs", shares, self._values)


def _folds(module: Any) -> bool:
    """Whether the weights of keys and values are here, and say all that their modules do."""
    parts = (module.key, module.value)
    # LoRA replaces a module or hooks into it; ZeRO 3 gathers weights only where a module runs.
    return all(
        type(part) is nn.Linear and not part._forward_hooks and not hasattr(part.weight, "ds_id")
        for part in parts
    )


def _widened(mask: Tensor | None, prefix: KeyValues, scores: Tensor) -> Tensor | None:
    """The mask (rows, length) with what a row sees of the prefix in front."""
    if mask is None and prefix.visible is None:
        return None
    rows, _, width = scores.shape
    every = torch.ones(rows, width, dtype=torch.bool, device=scores.device)
    front = every[:, : prefix.length] if prefix.visible is None else prefix.visible
    return torch.cat([front, every[:, prefix.length :] if mask is None else mask], dim=1)
