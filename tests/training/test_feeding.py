"""StepBatches that a thread makes ahead are those that nobody makes ahead."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count, islice

import pytest
import torch
from torch import Tensor

from harness.data.batching import TextBatch
from harness.training.feeding import AHEAD, StepBatches, ahead, fed, made, stage_streams
from tests.kits import KitFor


def numbered(asked: list[int]) -> Iterator[StepBatches]:
    """Endless batches that hold their number; `asked` hears which of them are made."""
    for number in count():
        asked.append(number)
        ids = torch.full((1, 1), number)
        yield {"contrastive": TextBatch(ids, torch.ones_like(ids), torch.tensor([number]))}


def number(batches: StepBatches) -> int:
    return int(batches["contrastive"].input_ids)


@pytest.fixture
def thread() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


def test_they_come_in_order_and_a_few_are_ready(thread: ThreadPoolExecutor) -> None:
    asked: list[int] = []
    batches = ahead(numbered(asked), thread)
    assert [number(each) for each in islice(batches, 5)] == [0, 1, 2, 3, 4]
    thread.shutdown()
    assert len(asked) == 5 + AHEAD


def test_an_exception_comes_to_the_one_who_asks(thread: ThreadPoolExecutor) -> None:
    def broken() -> Iterator[StepBatches]:
        yield from islice(numbered([]), 2)
        raise OSError("the disk is gone")

    batches = ahead(broken(), thread)
    assert [number(next(batches)) for _ in range(2)] == [0, 1]
    with pytest.raises(OSError, match="the disk is gone"):
        next(batches)


@pytest.mark.parametrize("method", ["simcse", "esimcse"])
def test_a_stage_on_another_device_has_the_same_batches(
    kit_for: KitFor, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The device here holds no numbers; what goes to it is what is compared."""
    moved: list[Tensor] = []

    def pinned(values: Tensor) -> Tensor:  # only a machine with a GPU can pin memory
        moved.append(values)
        return values

    monkeypatch.setattr(Tensor, "pin_memory", pinned)
    kit = kit_for(method)
    built, (stage,) = kit.build(), kit.declared.stages
    streams = stage_streams(built, kit, stage, seed=0)
    plain = list(islice(made(built, stage, streams, 3), 6))
    with fed(made(built, stage, streams, 3), torch.device("meta")) as feed:
        there = list(islice(feed, 6))
        assert any(each.name.startswith("batches ahead") for each in threading.enumerate())
    assert not any(each.name.startswith("batches ahead") for each in threading.enumerate())
    expected = [each for batches in plain for each in batches.values()]
    tensors = (
        value for each in expected for value in vars(each).values() if isinstance(value, Tensor)
    )
    for one, other in zip(tensors, moved, strict=False):
        assert one.equal(other)
    for one, two in zip(plain, there, strict=True):
        assert one.keys() == two.keys()
        for name, batch in two.items():
            assert batch.input_ids.device.type == "meta"
            assert batch.host_mask is not None
            assert batch.host_mask.equal(one[name].attention_mask)
