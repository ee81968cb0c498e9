"""Self-attention with key/value pairs in front of a layer's own: prefixes and deep prompts.

The keys of a layer become [P_key; K] and its values [P_value; V] (DiffAug, eq. 3; dcpcse.md,
section 1.1). Queries exist only for the text, so the output is as long as the text.

It is imported when an encoder is loaded: the models of transformers take seconds to import, and
what only looks into a store needs none.
"""

from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from harness.encoders.attention import KeyValues, OnePosition, select

ATTENTION = "prefix_sdpa"
"""The name under which transformers knows `prefix_sdpa`"""


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
    """The attention of transformers (SDPA) with `prefix` in front of keys and values.

    query, key, value: (rows, heads, length, head size); attention_mask: (rows, 1, length, length)
    bool, or None. only: the last layer computes one query of each row, and returns its result at
    every position. Returns (rows, length, heads, head size), and None for attention weights.
    """
    length = query.shape[2]
    if prefix is not None:
        key, value, attention_mask = _extended(module, prefix, query, key, value, attention_mask)
    one = only is not None and _layer_number(module) == only.layer
    if only is not None and one:
        query = select(query, only.where)
        # The mask hides padding alone, so its rows are all the same and the first one serves.
        attention_mask = None if attention_mask is None else attention_mask[:, :, :1]
    # Without is_causal, transformers may take a pass without a mask for a decoder's.
    attended, _ = sdpa_attention_forward(
        module, query, key, value, attention_mask, is_causal=False, **kwargs
    )
    # What follows in the layer expects the length of the text; `Encoder.at` takes one position.
    return attended.expand(-1, length, -1, -1) if one else attended, None


def _extended(
    module: nn.Module,
    prefix: KeyValues,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Keys, values and mask of a layer with those of its prefix in front."""
    layer = _layer_number(module)
    # Under autocast the text's keys are bf16, while trained prompts are float32.
    key = torch.cat([prefix.keys[layer].to(key.dtype), key], dim=2)
    value = torch.cat([prefix.values[layer].to(value.dtype), value], dim=2)
    if mask is not None or prefix.visible is not None:
        mask = _widened(mask, prefix, query)
    return key, value, mask


def _layer_number(module: nn.Module) -> int:
    """Which layer an attention module belongs to, counted from 0.

    It is asked only where a prefix or one position is wanted: not every encoder numbers its layers.
    """
    return cast("int", module.layer_idx)


def _widened(mask: Tensor | None, prefix: KeyValues, query: Tensor) -> Tensor:
    """The mask with the columns of the prompts in front, (rows, 1, length, prompts + length)."""
    rows, _, length, _ = query.shape
    if mask is None:
        text = torch.ones(rows, 1, length, length, dtype=torch.bool, device=query.device)
    else:
        text = mask.expand(rows, 1, length, -1)
    columns = (rows, 1, length, prefix.length)
    if prefix.visible is None:
        front = torch.ones(columns, dtype=torch.bool, device=query.device)
    else:
        front = prefix.visible[:, None, None, :].expand(columns)
    return torch.cat([front, text], dim=-1)


AttentionInterface.register(ATTENTION, prefix_sdpa)
AttentionMaskInterface.register(ATTENTION, sdpa_mask)
