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

from harness.encoders import variable_length
from harness.encoders.plain_attention import attended, is_faster
from harness.encoders.reach import KeyValues
from harness.encoders.unpadding import Unpadded, take

ASKED, DEMANDED = "warn", "error"
"""The modes of `torch.set_deterministic_debug_mode`"""
_ASKED_NUMBER = 1
_FAR = 4
"""Operations between the attention and its result, which is transposed and copied"""


def determine(states: Tensor) -> None:
    """Demand a deterministic backward pass of the attention that has just given `states`.

    Nothing happens without gradients, and where nobody has asked for deterministic algorithms.
    """
    node = states.grad_fn
    for _ in range(_FAR):
        if node is None or "Attention" in node.name():
            break
        node = node.next_functions[0][0] if node.next_functions else None
    if node is None or "Attention" not in node.name():
        return  # composed of simpler operations, which are deterministic
    if torch.get_deterministic_debug_mode() == _ASKED_NUMBER:
        node.register_prehook(lambda _: torch.set_deterministic_debug_mode(DEMANDED))
        node.register_hook(lambda *_: torch.set_deterministic_debug_mode(ASKED))


ATTENTION = "prefix_sdpa"
"""The name under which transformers knows `prefix_sdpa`"""


def prefix_sdpa(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    prefix: KeyValues | None = None,
    unpadded: Unpadded | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """The attention of transformers (SDPA) with `prefix` in front of keys and values.

    query, key, value: (rows, heads, length, head size); attention_mask: (rows, 1, length, length)
    bool, or None. unpadded: the one row that is given has all tokens of an unpadded batch, which
    attend to their own rows of it; the prefix is for the rows of the batch. Returns (rows, length,
    heads, head size), and None for attention weights.
    """
    front = _Front()
    if prefix is not None:  # only then, because not every encoder numbers its layers
        layer = cast("int", module.layer_idx)
        front = _Front(prefix.keys[layer], prefix.values[layer], prefix.visible)
    if unpadded is None:
        return _attended(module, (query, key, value), attention_mask, front, kwargs), None
    rate = kwargs.get("dropout", 0.0)
    if front.visible is None and variable_length.runs(query, rate):
        pair = front.keys, front.values
        states = variable_length.attended(
            unpadded, query, key, value, *pair, rate=rate, scaling=kwargs["scaling"]
        )
        return _determined(states), None
    sizes = [block.tokens for block in unpadded.blocks]
    # (1, heads, tokens, head size) -> (tokens of a block, heads, head size)
    texts = [torch.split(states[0].transpose(0, 1), sizes) for states in (query, key, value)]
    blocks = zip(unpadded.blocks, front.of_blocks(unpadded), *texts, strict=True)
    parts = []
    for block, own, *text in blocks:
        if not block.rows:  # the tail attends to nothing
            parts.append(torch.zeros_like(text[0]))
            continue
        padded = [block.padded(states).transpose(1, 2) for states in text]
        parts.append(block.unpadded(_attended(module, padded, block.mask, own, kwargs)))
    return torch.cat(parts)[None], None


class _Front(NamedTuple):
    """Prefix in front of one layer's own keys and values; None: nothing."""

    keys: Tensor | None = None
    """(rows, heads, prompts, head size)"""
    values: Tensor | None = None
    visible: Tensor | None = None
    """(rows, prompts); None: all are"""

    def of_blocks(self, unpadded: Unpadded) -> Iterator["_Front"]:
        """The same for the rows of each block."""
        rows = [block.rows for block in unpadded.blocks]
        columns = [
            repeat(None, len(rows))
            if value is None
            else torch.split(take(value, unpadded.order), rows)
            for value in self
        ]
        return map(_Front, *columns)


def _attended(
    module: nn.Module,
    text: Sequence[Tensor],
    mask: Tensor | None,
    front: _Front,
    kwargs: dict[str, Any],
) -> Tensor:
    """text: query, key and value of padded rows. Returns (rows, length, heads, head size)."""
    query, key, value = text
    if front.keys is not None and front.values is not None:
        # Under autocast the text's keys are bf16, while trained prompts are float32.
        key = torch.cat([front.keys.to(key.dtype), key], dim=2)
        value = torch.cat([front.values.to(value.dtype), value], dim=2)
        mask = _widened(mask, front.visible, query, key)
    rate = kwargs.get("dropout", 0.0)
    if is_faster(query, mask, rate):
        return attended(query, key, value, mask, rate=rate, scaling=kwargs["scaling"])
    # Without is_causal, transformers may take a pass without a mask for a decoder's.
    kwargs = {**kwargs, "is_causal": False}
    states: Tensor
    states, _ = sdpa_attention_forward(module, query, key, value, mask, **kwargs)
    return _determined(states)


def _determined(states: Tensor) -> Tensor:
    """The same result of an attention, whose backward pass is deterministic where that is asked."""
    if states.is_cuda and not torch.compiler.is_compiling():
        determine(states)
    return states


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


def padding_mask(*, attention_mask: Tensor | None = None, **options: Any) -> Tensor | None:
    """The mask of transformers for SDPA, (rows, 1, length, length) bool; None without padding.

    transformers would ask whether the mask hides anything, and the CPU would wait for a GPU. A
    decoder always gets a mask, because prompts stand in front of it.
    """
    if attention_mask is not None:
        options["allow_is_bidirectional_skip"] = options["allow_is_causal_skip"] = False
    mask: Tensor | None = sdpa_mask(attention_mask=attention_mask, **options)
    return mask


AttentionInterface.register(ATTENTION, prefix_sdpa)
AttentionMaskInterface.register(ATTENTION, padding_mask)
