"""Flash attention over rows of any length that follow one another, on a GPU.

The kernel reads an unpadded batch as it lies, and needs neither padding nor masks. It works in bf16
and fp16 alone; what a stored score embeds is float32, and goes in padded blocks.

It is the operator below torch's two public ways, `torch.nn.attention.varlen`, which lets nobody
drop anything, and nested tensors. It drops probabilities inside, with the distribution of SDPA.
Dropout of the output would have another one: where a probability is dropped, all numbers of a head
lose the same token, and not each of them its sum.
"""

from functools import lru_cache
from typing import cast

import torch
from torch import Tensor
from torch.backends.cuda import SDPAParams

from harness.encoders.unpadding import Unpadded, put, take

HEAD_SIZE_MULTIPLE = 8
"""The kernel wants a head size that is a multiple of this; SDPA would fill it up"""


def runs(query: Tensor, rate: float) -> bool:
    """Whether the kernel runs here.

    query: (1, heads, tokens, head size). rate: of dropout. torch decides: never on a CPU, and not
    where `torch.backends.cuda.enable_flash_sdp` has switched it off, like torch's own choice of it.
    """
    if query.shape[-1] % HEAD_SIZE_MULTIPLE:
        return False
    asked = SDPAParams(query, query, query, None, rate, False, False)
    return torch.backends.cuda.can_use_flash_attention(asked)


def attended(
    unpadded: Unpadded,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    front_keys: Tensor | None,
    front_values: Tensor | None,
    *,
    rate: float,
    scaling: float,
) -> Tensor:
    """Attention of every row of a batch to itself, (1, tokens, heads, head size).

    query, key, value: (1, heads, tokens, head size). front_keys, front_values: those in front of
    each row's own, (rows, heads, prompts, head size); None: nothing. rate: of the dropout of
    probabilities, 0 to 1. scaling: of the scores. What stands behind the rows attends to itself.
    """
    query, key, value = (states[0].transpose(0, 1) for states in (query, key, value))
    ends = key_ends = _ends(unpadded, len(query))
    longest = longest_key = unpadded.shape[1]
    if front_keys is not None and front_values is not None:
        prompts = front_keys.shape[2]
        places, key_ends = _places(unpadded, len(key), prompts)
        longest_key += prompts
        key = _behind(take(front_keys, unpadded.order), key, places)
        value = _behind(take(front_values, unpadded.order), value, places)
    # The ends are int32, and the longest are those of a row.
    states, *_ = torch.ops.aten._flash_attention_forward(
        query, key, value, ends, key_ends, longest, longest_key, rate, False, False, scale=scaling
    )
    return cast("Tensor", states)[None]


def _behind(front: Tensor, states: Tensor, places: Tensor) -> Tensor:
    """States of tokens, (tokens, heads, head size), those of each row behind its part of `front`.

    front: (rows, heads, prompts, head size). places: of both, (keys,). Returns (keys, heads, head
    size).
    """
    # Under autocast the text's keys are bf16, while trained prompts are float32.
    own = front.transpose(1, 2).flatten(0, 1).to(states.dtype)
    return put(torch.cat([own, states]), places, len(places))


@lru_cache(maxsize=1)  # all layers of a pass ask for the same
def _ends(unpadded: Unpadded, tokens: int) -> Tensor:
    """Cumulative lengths of the rows, and of parts of the tail, which are no longer than a row.

    (rows + parts + 1,) int32, from 0 to `tokens`. The CPU does not wait for the device to know how
    long the tail is, so there are as many parts as it may need.
    """
    rows, length = unpadded.shape
    ends = take(cast("Tensor", unpadded.mask).sum(dim=1), unpadded.order).cumsum(dim=0)
    parts = -(-(tokens - rows) // length)
    behind = ends[-1] + length * torch.arange(1, parts + 1, device=ends.device)
    return torch.cat([ends.new_zeros(1), ends, behind.clamp(max=tokens)]).to(torch.int32)


@lru_cache(maxsize=1)
def _places(unpadded: Unpadded, tokens: int, prompts: int) -> tuple[Tensor, Tensor]:
    """Places of the prompts of all rows, then of all tokens, (rows * prompts + tokens,).

    With them come the cumulative lengths with prompts; the tail has none.
    """
    ends, rows = _ends(unpadded, tokens), len(unpadded.order)
    number = torch.arange(len(ends), device=ends.device)
    before = prompts * number.clamp(max=rows)
    own = (ends + before)[:rows, None] + torch.arange(prompts, device=ends.device)
    token = torch.arange(tokens, dtype=torch.int32, device=ends.device)
    text = token + before[torch.searchsorted(ends, token, right=True)]
    return torch.cat([own.flatten(), text]), (ends + before).to(torch.int32)
