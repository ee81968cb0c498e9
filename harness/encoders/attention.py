"""Self-attention with key/value pairs in front of a layer's own (prefixes and deep prompts)."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

ATTENTION = "prefix_sdpa"


@dataclass(frozen=True)
class KeyValues:
    """Keys and values that stand in front of a layer's own, for every layer."""

    keys: tuple[Tensor, ...]
    """One per layer, (rows, heads, prompts, head size)"""
    values: tuple[Tensor, ...]
    visible: Tensor | None = None
    """(rows, prompts) bool: which of them a row sees; None: all"""

    @property
    def length(self) -> int:
        """Number of prompt positions."""
        return self.keys[0].shape[2]


@dataclass(frozen=True)
class OnePosition:
    """The one position of every row that is wanted of the last layer."""

    where: Tensor | int
    """(rows,), or one number for all"""
    layer: int
    """The last one's number"""


def select(states: Tensor, where: Tensor | int) -> Tensor:
    """(rows, ..., length, width) -> (rows, ..., 1, width). A product with ones and zeros: exact, and its gradient is
    deterministic."""
    if isinstance(where, int):
        return states[..., where : where + 1, :]
    chosen = functional.one_hot(where, states.shape[-2]).to(states.dtype)
    return chosen.view(len(where), *(1,) * (states.dim() - 2), -1) @ states


def prefix_sdpa(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    prefix: KeyValues | None = None,
    only: OnePosition | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """transformers' SDPA with `prefix` in front of keys and values; queries stay those of the text.

    query, key, value: (rows, heads, length, head size); attention_mask: (rows, 1, length, length) bool or None.
    With `only`, the last layer answers one query a row, and gives that answer at every position.
    """
    if prefix is not None:
        layer: int = module.layer_idx  # type: ignore[assignment]
        rows, _, length, _ = query.shape
        key = torch.cat([prefix.keys[layer].to(key.dtype), key], dim=2)
        value = torch.cat([prefix.values[layer].to(value.dtype), value], dim=2)
        if attention_mask is not None or prefix.visible is not None:
            attention_mask = _widen(attention_mask, prefix, (rows, 1, length, length), query.device)
    if only is not None and module.layer_idx == only.layer:
        length = query.shape[2]
        attention_mask = (
            None if attention_mask is None else attention_mask[:, :, :1]
        )  # padding: the same for all
        one, _ = sdpa_attention_forward(
            module, select(query, only.where), key, value, attention_mask, is_causal=False, **kwargs
        )
        return one.expand(-1, length, -1, -1), None
    attended, _ = sdpa_attention_forward(
        module, query, key, value, attention_mask, is_causal=False, **kwargs
    )
    return attended, None


def _widen(
    mask: Tensor | None, prefix: KeyValues, shape: tuple[int, int, int, int], device: torch.device
) -> Tensor:
    """The mask with the prompt columns in front, (rows, 1, length, prompts + length)."""
    rows, _, length, _ = shape
    text = (
        torch.ones(shape, dtype=torch.bool, device=device)
        if mask is None
        else mask.expand(rows, 1, length, -1)
    )
    columns = (rows, 1, length, prefix.length)
    if prefix.visible is None:
        front = torch.ones(columns, dtype=torch.bool, device=device)
    else:
        front = prefix.visible[:, None, None, :].expand(columns)
    return torch.cat([front, text], dim=-1)


AttentionInterface.register(ATTENTION, prefix_sdpa)
AttentionMaskInterface.register(ATTENTION, sdpa_mask)
