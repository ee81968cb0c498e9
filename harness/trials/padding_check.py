"""The check that the losses of a plugin do not depend on the padding of a batch."""

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch.nn import functional

from harness.data.batching import Stream, TextBatch
from harness.plugin.method import Method
from harness.plugin.stage import Stage
from harness.training.seeds import random_states, set_random_states

MORE_PADDING = 3
"""Columns"""
LOSS_TOLERANCE = 1e-3
"""Of a loss, relative; other shapes are other matrix products, which round differently"""


def padding_matters(method: Method[Any], stage: Stage, streams: Mapping[str, Stream]) -> str:
    """The name of a loss that changes when the rows of a batch get more padding; "" for none.

    Dropout is off. A loss that is random all the same is not looked at, because its random numbers
    may depend on the shape of the batch.
    """
    batch = {name: next(stream.batches()) for name, stream in streams.items()}
    # The longest row of the shuffled batch is the same for both, because it stands for the padding
    # over which a released code averages (diffcse.md, section 1.2).
    wider = {name: _wider(each) for name, each in batch.items()}
    lengths = {name: each.shuffled_length for name, each in wider.items()}
    batch = {name: replace(each, shuffled_length=lengths[name]) for name, each in batch.items()}
    plain = _losses(method, batch, stage)
    torch.rand(1)
    again, padded = _losses(method, batch, stage, draw=1), _losses(method, wider, stage)
    for name, loss in plain.items():
        allowed = LOSS_TOLERANCE * max(1e-3, abs(loss))
        if abs(again[name] - loss) <= allowed < abs(padded[name] - loss):
            return name
    return ""


def _wider(batch: TextBatch) -> TextBatch:
    padding = (0, MORE_PADDING)
    ids = functional.pad(batch.input_ids, padding, value=int(batch.input_ids[0, -1]))
    mask = functional.pad(batch.attention_mask, padding)
    length = max(batch.shuffled_length, ids.shape[1])
    return replace(batch, input_ids=ids, attention_mask=mask, shuffled_length=length)


def _losses(
    method: Method[Any], batch: Mapping[str, TextBatch], stage: Stage, draw: int = 0
) -> dict[str, float]:
    """The losses of a copy of the method, so that its state stays; `draw`: of random numbers."""
    states = random_states()
    try:
        torch.manual_seed(draw)
        twin = copy.deepcopy(method).eval()
        with torch.no_grad():
            losses = twin.losses(twin.prepared(batch, stage), stage)
        return {name: float(losses[name]) for name in stage.losses}
    finally:
        set_random_states(states)
