"""Passes of an encoder that save memory and time: in shares and chunks, and with one query a row.

A pass over many rows is shared out among the ranks, and goes in chunks. A chunk keeps no
activations: they are computed a second time in the backward pass, with the same dropout masks, so
that a contrastive batch may be larger than memory. This gives the gradients of GradCache (Gao et
al., 2021, arXiv 2101.06983), which keeps them at the vectors instead.

Of a last layer, often only one position of every row is read. The query q of a head meets the key
W x + b of a token x as q (W x + b) = (q W) x + q b, and what it finds is the sum of p (W x + b) =
W (sum of p x) + b (sum of p), with the probabilities p. So the weights W of keys and values need to
meet each row once, and not each of its tokens. This is exact, and leaves hardly any work for each
token.
"""

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from harness.data.batching import TextBatch
from harness.encoders import unpadding
from harness.encoders.plain_attention import probabilities
from harness.encoders.reach import KeyValues, Reach
from harness.encoders.rounded import weight_of
from harness.encoders.unpadding import Padded, Unpadded
from harness.errors import UserError
from harness.ranks import entering, gathered, own_random, own_share, rank_count

SMALLEST = 0.01
"""The least difference between two views, as a share of their length.

Rounding in bf16 makes less, and a dropout of 0.001 makes more."""


def check_views(name: str, states: Tensor, batch: TextBatch, reach: Reach) -> None:
    """Raise UserError when the copies of each row of a batch came out of an encoder as equals.

    name: of the encoder. states: (rows, length, H), or (rows, 1, H) of one position. The CPU waits
    here for a GPU, so this is for the first pass alone.
    """
    prefix, mixture = reach.get("prefix"), reach.get("mixture")
    given = [*(prefix.keys[:1] if prefix else ()), *([] if mixture is None else [mixture])]
    # Views that meet other prompts or modules are other views, if only by a little.
    if any(not one.equal(other) for one, other in (_copies(each, batch) for each in given)):
        return
    real = states.detach().float()
    if states.shape[1] > 1:
        real = real * batch.attention_mask[:, :, None]
    one, other = _copies(real, batch)
    if (one - other).norm() < SMALLEST * one.norm():
        raise UserError(
            f'two views of a sentence are the same in encoder "{name}", which drops nothing at '
            f"random: set encoder_dropout, for example to 0.1, or train on labelled data"
        )


def _copies(values: Tensor, batch: TextBatch) -> tuple[Tensor, Tensor]:
    """The values of the first two copies of each row, (rows / copies, ...)."""
    by_row = values.view(-1, batch.copies, *values.shape[1:])
    return by_row[:, 0], by_row[:, 1]


Where = Tensor | int | None
"""The position of each row that is wanted, (rows,), or one for all rows; None: all positions"""
Pass = Callable[[TextBatch, Reach, Where], tuple[Tensor, ...]]
"""A pass over the rows of a batch -> tensors (rows, ...)"""


def run_in_shares(
    run: Pass, batch: TextBatch, reach: Reach, where: Where, chunk_size: int | None
) -> tuple[Tensor, ...]:
    """Results of `run` for all rows, when each rank runs it over its share of them.

    chunk_size: the most rows at a time; None: no limit. `reach` has no `edit` that looks at other
    rows than its own.
    """
    rows = len(batch.input_ids)
    if rank_count() == 1:
        return _in_chunks(run, batch, reach, where, slice(0, rows), chunk_size)
    reach = _entering(reach)
    with own_random():
        own = _in_chunks(run, batch, reach, where, own_share(rows), chunk_size)
    return tuple(gathered(each, rows) for each in own)


def _in_chunks(
    run: Pass, batch: TextBatch, reach: Reach, where: Where, share: slice, chunk_size: int | None
) -> tuple[Tensor, ...]:
    size = chunk_size or share.stop - share.start
    parts = []
    for start in range(share.start, share.stop, size):
        rows = slice(start, min(start + size, share.stop))
        own_where = where[rows] if isinstance(where, Tensor) else where
        arguments = (batch.rows(rows), _reach_of(reach, rows), own_where)
        if chunk_size is None:
            return run(*arguments)
        # torch keeps the random state of the GPUs that it finds among the arguments, and it does
        # not look into a batch. Without the state, the second pass would draw other dropout masks.
        ids = arguments[0].input_ids
        states = checkpoint(lambda _, *each: run(*each), ids, *arguments, use_reentrant=False)
        parts.append(states)
    return tuple(torch.cat(each) for each in zip(*parts, strict=True))


def _entering(reach: Reach) -> Reach:
    """The same reach, whose gradients are right where it has been made from gathered vectors."""
    entered = cast("Reach", dict(reach))
    if prefix := reach.get("prefix"):
        keys, values = (tuple(map(entering, part)) for part in (prefix.keys, prefix.values))
        entered["prefix"] = prefix._replace(keys=keys, values=values)
    if words := reach.get("words"):
        entered["words"] = words._replace(vectors=entering(words.vectors))
    if (mixture := reach.get("mixture")) is not None:
        entered["mixture"] = entering(mixture)
    return entered


def _reach_of(reach: Reach, rows: slice) -> Reach:
    """The injection of a method for some of the rows."""
    share = cast("Reach", dict(reach))
    if prefix := reach.get("prefix"):
        keys, values = (tuple(each[rows] for each in part) for part in (prefix.keys, prefix.values))
        visible = None if prefix.visible is None else prefix.visible[rows]
        share["prefix"] = KeyValues(keys, values, visible)
    if words := reach.get("words"):
        share["words"] = words._replace(positions=words.positions[rows])
    if (positions := reach.get("positions")) is not None:
        share["positions"] = positions[rows]
    if (mixture := reach.get("mixture")) is not None:
        share["mixture"] = mixture[rows]
    if edit := reach.get("edit"):
        share["edit"] = lambda output: edit(output)[rows]
    return share


WITH_BERT_ATTENTION = tuple(kind for kind in unpadding.FAMILIES if kind != "distilbert")
"""Kinds of models (`model_type`) whose layers have BERT's attention, with its names"""


def attended_at(
    module: Any,
    states: Tensor,
    layout: Padded | Unpadded,
    where: Tensor | int,
    prefix: KeyValues | None,
) -> Tensor:
    """Attention of one query of every row, (rows, 1, H).

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
        mask = _with_prefix(mask, prefix, scores)
    rate = module.dropout.p if module.training else 0.0
    shares = probabilities(scores, None if mask is None else mask[:, None], rate)
    if prefix is None:
        return text.found(shares).flatten(1)[:, None]
    front, own = shares[..., : prefix.length], shares[..., prefix.length :]
    values = prefix.values[number].to(query.dtype)
    found = text.found(own) + torch.einsum("rhl,rhls->rhs", front, values)
    return found.flatten(1)[:, None]


class _Folded:
    """Keys and values of a row's own tokens, which are never made.

    Their weights meet the queries, and the sums of states. `scores`: (rows, heads, H / heads) ->
    (rows, heads, length). `found`: (rows, heads, length) -> (rows, heads, H / heads).
    """

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
        weight = weight_of(layer).view(self._heads, -1, layer.in_features)
        return weight, layer.bias.view(self._heads, -1)


class _Projected:
    """The same, made for all tokens by modules that may be more than their weights."""

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


def _with_prefix(mask: Tensor | None, prefix: KeyValues, scores: Tensor) -> Tensor | None:
    """The mask (rows, length) with what a row sees of the prefix in front."""
    if mask is None and prefix.visible is None:
        return None
    rows, _, width = scores.shape
    every = torch.ones(rows, width, dtype=torch.bool, device=scores.device)
    front = every[:, : prefix.length] if prefix.visible is None else prefix.visible
    return torch.cat([front, every[:, prefix.length :] if mask is None else mask], dim=1)
