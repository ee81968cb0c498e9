"""Batches of a stage: its streams, its end, and a thread that makes batches for a GPU."""

from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import torch

from harness.data.batching import Stream, StreamOptions, TextBatch
from harness.plugin.config import TrainingConfig
from harness.plugin.kit import Kit
from harness.plugin.method import Method
from harness.plugin.stage import Stage
from harness.training.progress import Outcome


def stage_streams(
    method: Method[Any], kit: Kit, stage: Stage, seed: int, *, batch_size: int | None = None
) -> dict[str, Stream]:
    """The streams of a stage, by name. `batch_size`: at most so many items in a batch."""
    config = kit.config
    assert isinstance(config, TrainingConfig)
    streams = {}
    for name, size in stage.streams.items():
        corpus = kit.declared.corpora[name]
        options = StreamOptions(
            limit=method.training_pieces,
            batch_size=min(size, batch_size or size),
            seed=seed,
            items=kit.label_subset(corpus),
            group=stage.group,
            text=stage.batches.text,
            # Rows that are looked up have no padding to save.
            batching=config.batching if stage.batches.text else "shuffled",
        )
        streams[name] = Stream(kit.tokens(corpus, method.template), method.template, options)
    return streams


def patience_spent(stage: Stage, outcome: Outcome) -> bool:
    """Whether a stage ends here, because its last evaluations on dev brought no gain."""
    if stage.selection.patience is None:
        return False
    # The history is in the checkpoint, so a trial that goes on counts from the same evaluation.
    since_best = sum(
        each["stage"] == stage.name and each["metric"] == "dev" and each["step"] > outcome.best_step
        for each in outcome.history
    )
    return since_best >= stage.selection.patience


StepBatches = Mapping[str, TextBatch]
"""Stream -> its batch, and what the method has made of them"""
AHEAD = 2
"""StepBatches that are ready before a step asks for them"""


def made(
    method: Method[Any], stage: Stage, streams: Mapping[str, Stream], first: int
) -> Iterator[StepBatches]:
    """The batches of a stage without end, from batch number `first` on, in the CPU's memory."""
    feeds = {name: stream.batches(first) for name, stream in streams.items()}
    while True:
        yield method.prepared({name: next(feed) for name, feed in feeds.items()}, stage)


@contextmanager
def fed(batches: Iterator[StepBatches], device: torch.device) -> Iterator[Iterator[StepBatches]]:
    """The same batches on the device. In the block, a thread is ahead when that is a GPU."""
    if device.type == "cpu":
        yield batches
        return
    pinned = ({name: each.pinned() for name, each in batch.items()} for batch in batches)
    thread = ThreadPoolExecutor(1, "batches ahead")
    try:
        made_ahead = ahead(pinned, thread)
        yield ({name: each.to(device) for name, each in batch.items()} for batch in made_ahead)
    finally:
        thread.shutdown(cancel_futures=True)


def ahead(batches: Iterator[StepBatches], thread: Executor) -> Iterator[StepBatches]:
    """The same endless batches, of which the thread makes the next ones.

    An exception of it comes to the one who asks.
    """
    ready = deque(thread.submit(next, batches) for _ in range(AHEAD))
    while True:
        batch = ready.popleft().result()
        ready.append(thread.submit(next, batches))
        yield batch
