"""Self-attention with key/value pairs in front of a layer's own: prefixes and deep prompts.

The keys of a layer become [P_key; K] and its values [P_value; V] (DiffAug, eq. 3; dcpcse.md,
section 1.1). Queries exist only for the text, so the output is as long as the text.

It is imported when an encoder is loaded: the models of transformers take seconds to import, and
what only looks into a store needs none.
"""

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from harness.encoders.attention import KeyValues, OnePosition, select
from harness.encoders.deterministic_attention import determine
from harness.encoders.taking import take
from harness.encoders.unpadding import Unpadded

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
    unpadded: Unpadded | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """The attention of transformers (SDPA) with `prefix` in front of keys and values.

    query, key, value: (rows, heads, length, head size); attention_mask: (rows, 1, length, length)
    bool, or None. only: the last layer computes one query of each row, and returns its result at
    every position. unpadded: the one row that is given has all tokens of an unpadded batch, which
    attend to their own rows of it; prefix and only are for the rows of the batch. Returns (rows,
    length, heads, head size), and None for attention weights.
    """
    wanted = _wanted(module, prefix, only)
    if unpadded is None:
        return _attended(module, (query, key, value), attention_mask, wanted, kwargs), None
    sizes = [block.tokens for block in unpadded.blocks]
    # (1, heads, tokens, head size) -> (tokens of a block, heads, head size)
    texts = [torch.split(states[0].transpose(0, 1), sizes) for states in (query, key, value)]
    blocks = zip(unpadded.blocks, wanted.of_blocks(unpadded), *texts, strict=True)
    parts = []
    for block, own, *text in blocks:
        if not block.rows:  # the tail attends to nothing
            parts.append(torch.zeros_like(text[0]))
            continue
        padded = [block.padded(states).transpose(1, 2) for states in text]
        parts.append(block.unpadded(_attended(module, padded, block.mask, own, kwargs)))
    return torch.cat(parts)[None], None


class _Wanted(NamedTuple):
    """What a method asks of one layer."""

    keys: Tensor | None
    """Of the prefix, (rows, heads, prompts, head size)"""
    values: Tensor | None
    visible: Tensor | None
    """(rows, prompts)"""
    where: Tensor | int | None
    """The one position; None: all"""

    def of_blocks(self, unpadded: Unpadded) -> Iterator["_Wanted"]:
        """The same for the rows of each block."""
        rows = [block.rows for block in unpadded.blocks]
        columns = [
            torch.split(take(value, unpadded.order), rows)
            if isinstance(value, Tensor)
            else repeat(value, len(rows))
            for value in self
        ]
        return map(_Wanted, *columns)


def _wanted(module: nn.Module, prefix: KeyValues | None, only: OnePosition | None) -> _Wanted:
    if prefix is None and only is None:
        return _Wanted(None, None, None, None)
    # Asked only here: not every encoder numbers its layers.
    layer = cast("int", module.layer_idx)
    where = only.where if only is not None and only.layer == layer else None
    if prefix is None:
        return _Wanted(None, None, None, where)
    return _Wanted(prefix.keys[layer], prefix.values[layer], prefix.visible, where)


def _attended(
    module: nn.Module,
    text: Sequence[Tensor],
    mask: Tensor | None,
    wanted: _Wanted,
    kwargs: dict[str, Any],
) -> Tensor:
    """text: query, key and value of padded rows. Returns (rows, length, heads, head size)."""
    query, key, value = text
    length = query.shape[2]
    if wanted.keys is not None and wanted.values is not None:
        # Under autocast the text's keys are bf16, while trained prompts are float32.
        key = torch.cat([wanted.keys.to(key.dtype), key], dim=2)
        value = torch.cat([wanted.values.to(value.dtype), value], dim=2)
        mask = _widened(mask, wanted.visible, query, key)
    if wanted.where is not None:
        query = select(query, wanted.where)
        # The mask hides padding alone, so its rows are all the same and the first one serves.
        mask = None if mask is None else mask[:, :, :1]
    # Without is_causal, transformers may take a pass without a mask for a decoder's.
    kwargs = {**kwargs, "is_causal": False}
    states: Tensor
    states, _ = sdpa_attention_forward(module, query, key, value, mask, **kwargs)
    if states.is_cuda and not torch.compiler.is_compiling():
        determine(states)
    # What follows in the layer expects the length of the text; `Encoder.at` takes one position.
    return states if wanted.where is None else states.expand(-1, length, -1, -1)


def _widened(
    mask: Tensor | None, visible: Tensor | None, query: Tensor, key: Tensor
) -> Tensor | None:
    """The mask with the columns of the prompts in front, (rows, 1, length, prompts + length)."""
    if mask is None and visible is None:
        return None
    rows, _, length, _ = query.shape
    every = torch.ones(rows, 1, length, key.shape[2] - length, dtype=torch.bool, device=key.device)
    front = every if visible is None else visible[:, None, None, :].expand_as(every)
    text = every.new_ones(rows, 1, length, length) if mask is None else mask
    return torch.cat([front, text.expand(rows, 1, length, length)], dim=-1)


def padding_mask(*, attention_mask: Tensor | None = None, **given: Any) -> Tensor | None:
    """The mask of transformers for SDPA, (rows, 1, length, length) bool; None without padding.

    transformers would ask whether the mask hides anything, and the CPU would wait for a GPU. A
    decoder always gets a mask, because prompts stand in front of it.
    """
    if attention_mask is not None:
        given["allow_is_bidirectional_skip"] = given["allow_is_causal_skip"] = False
    found: Tensor | None = sdpa_mask(attention_mask=attention_mask, **given)
    return found


AttentionInterface.register(ATTENTION, prefix_sdpa)
AttentionMaskInterface.register(ATTENTION, padding_mask)
