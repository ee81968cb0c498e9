"""One pass of an encoder over many rows: shared out among the ranks, and in chunks.

A chunk keeps no activations: they are computed a second time in the backward pass, with the same
dropout masks, so that a contrastive batch may be larger than memory. This gives the gradients of
GradCache (Gao et al., 2021, arXiv 2101.06983), which keeps them at the vectors instead.
"""

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from harness.data.batching import TextBatch
from harness.encoders.attention import KeyValues
from harness.encoders.reach import Reach
from harness.ranks import entering, gathered, own_random, own_share, rank_count

Where = Tensor | int | None
"""The position of each row that is wanted, (rows,), or one for all rows; None: all positions"""
Pass = Callable[[TextBatch, Reach, Where], tuple[Tensor, ...]]
"""A pass over the rows of a batch -> tensors (rows, ...)"""


def run_in_shares(
    run: Pass, batch: TextBatch, reach: Reach, where: Where, chunk_size: int | None
) -> tuple[Tensor, ...]:
    """What `run` gives for all rows, when each rank runs it over its share of them.

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
    found = cast("Reach", dict(reach))
    if prefix := reach.get("prefix"):
        keys, values = (tuple(map(entering, part)) for part in (prefix.keys, prefix.values))
        found["prefix"] = prefix._replace(keys=keys, values=values)
    if words := reach.get("words"):
        found["words"] = words._replace(vectors=entering(words.vectors))
    if (mixture := reach.get("mixture")) is not None:
        found["mixture"] = entering(mixture)
    return found


def _reach_of(reach: Reach, rows: slice) -> Reach:
    """What a method reaches into for some of the rows."""
    found = cast("Reach", dict(reach))
    if prefix := reach.get("prefix"):
        keys, values = (tuple(each[rows] for each in part) for part in (prefix.keys, prefix.values))
        visible = None if prefix.visible is None else prefix.visible[rows]
        found["prefix"] = KeyValues(keys, values, visible)
    if words := reach.get("words"):
        found["words"] = words._replace(positions=words.positions[rows])
    if (positions := reach.get("positions")) is not None:
        found["positions"] = positions[rows]
    if (mixture := reach.get("mixture")) is not None:
        found["mixture"] = mixture[rows]
    if edit := reach.get("edit"):
        found["edit"] = lambda output: edit(output)[rows]
    return found
