"""StepBatches that a thread makes ahead are those that nobody makes ahead."""

import threading
import time
from collections.abc import Iterator
from itertools import count, islice

import pytest
import torch

from harness.data.batching import TextBatch
from harness.training.feeding import AHEAD, Ahead, StepBatches, fed, made, stage_streams
from tests.kits import KitFor


def numbered(asked: list[int]) -> Iterator[StepBatches]:
    """Endless batches that hold their number; `asked` hears which of them are made."""
    for number in count():
        asked.append(number)
        ids = torch.full((1, 1), number)
        yield {"contrastive": TextBatch(ids, torch.ones_like(ids), torch.tensor([number]))}


def number(batches: StepBatches) -> int:
    return int(batches["contrastive"].input_ids)


def test_they_come_in_order_and_a_few_are_ready() -> None:
    asked: list[int] = []
    ahead = Ahead(numbered(asked))
    try:
        assert [number(batches) for batches in islice(ahead, 5)] == [0, 1, 2, 3, 4]
        until = time.monotonic() + 60
        while len(asked) < 5 + AHEAD and time.monotonic() < until:
            time.sleep(0.01)
    finally:
        ahead.close()
    assert 5 + AHEAD <= len(asked) <= 5 + AHEAD + 1  # one more waits for its place


def test_the_thread_ends_though_nobody_takes_its_batches() -> None:
    ahead = Ahead(numbered([]))
    next(ahead)
    ahead.close()
    assert "batches ahead" not in {thread.name for thread in threading.enumerate()}


def test_an_exception_comes_to_the_one_who_asks() -> None:
    def broken() -> Iterator[StepBatches]:
        yield from islice(numbered([]), 2)
        raise OSError("the disk is gone")

    ahead = Ahead(broken())
    assert [number(next(ahead)) for _ in range(2)] == [0, 1]
    for _ in range(2):
        with pytest.raises(OSError, match="the disk is gone"):
            next(ahead)
    ahead.close()


@pytest.mark.parametrize("method", ["simcse", "esimcse"])
def test_a_stage_on_another_device_has_the_same_batches(
    kit_for: KitFor, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The device here holds no numbers; what goes to it is what is compared."""
    moved: list[TextBatch] = []

    def pinned(batch: TextBatch) -> TextBatch:  # only a machine with a GPU can pin memory
        moved.append(batch)
        return batch

    monkeypatch.setattr(TextBatch, "pinned", pinned)
    kit = kit_for(method)
    built, (stage,) = kit.build(), kit.declared.stages
    streams = stage_streams(built, kit, stage, seed=0)
    plain = list(islice(made(built, stage, streams, 3), 6))
    with fed(made(built, stage, streams, 3), torch.device("meta")) as feed:
        there = list(islice(feed, 6))
    expected = [each for batches in plain for each in batches.values()]
    for one, other in zip(expected, moved, strict=False):
        assert one.input_ids.equal(other.input_ids)
        assert one.attention_mask.equal(other.attention_mask)
    for one, two in zip(plain, there, strict=True):
        assert one.keys() == two.keys()
        for name, batch in two.items():
            assert batch.input_ids.device.type == "meta"
            assert batch.host_mask is not None
            assert batch.host_mask.equal(one[name].attention_mask)
