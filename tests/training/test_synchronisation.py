"""A training step on a GPU does not let the CPU wait for a number that the GPU computes.

There is no GPU here, so the operations are watched that would wait there: those that read a number,
and those whose result has a size that depends on numbers. Where a GPU is, torch itself is asked.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from harness.data.batching import TextBatch
from harness.device import device
from harness.modules.vector_table import VectorTable
from harness.plugin import registry
from harness.plugin.config import TrainingConfig
from harness.plugin.kit import Kit
from harness.training.engines import stage_optimiser
from harness.training.feeding import made, stage_streams
from harness.training.parameters import trainable
from harness.training.progress import Outcome
from harness.training.steps import Steps
from tests.kits import KitFor
from tests.matrix import trained_rows

WAITING = {
    "aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::_unique2",
    "aten::unique_dim", "aten::unique_consecutive", "aten::is_nonzero", "aten::equal",
}  # fmt: skip
INDEXING = {"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"}
"""They wait where the index is a mask"""


class Waits(TorchDispatchMode):
    """Counts the operations that would wait for a GPU."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[str] = Counter()

    def __torch_dispatch__(
        self, called: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        name = called._schema.name
        masked = name in INDEXING and any(
            index is not None and index.dtype == torch.bool for index in args[1]
        )
        if name in WAITING or masked or str(called) == "aten.repeat_interleave.Tensor":
            self.found[name] += 1
        return called(*args, **(kwargs or {}))


class Reads(TorchFunctionMode):
    """In the block, a call that would bring a tensor of a GPU to the CPU is an error."""

    def refuses(self, called: Any, _arguments: Any) -> bool:
        """Whether a call of this function is one."""
        return called in (Tensor.cpu, Tensor.tolist)

    def __torch_function__(
        self, called: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        assert not self.refuses(called, args), "the CPU waits for a tensor of a GPU"
        return called(*args, **(kwargs or {}))


NOTHING: Mapping[str, int] = {}
OPTIONS = [
    ("flow", "unsup", {"permutation": "invertible"}),
    ("scored_pairs", "sup", {"objective": "cosent"}),
]
"""Options that make a step compute something in another way"""
CHOSEN = {"aten::nonzero": 1}
"""A step reads, once, at how many positions it predicts tokens"""
WAITING_STAGES = {("infocse", "contrastive"): CHOSEN, ("llm2vec", "masked"): CHOSEN}
"""Method, stage -> what waits in a step with the method's defaults"""


def settings() -> Iterator[Any]:
    """Every method that trains, in each of its settings."""
    for name, setting in trained_rows():
        yield pytest.param(name, setting, {}, id=f"{name}-{setting}")
    for name, setting, values in OPTIONS:
        yield pytest.param(name, setting, values, id=f"{name}-{'-'.join(values.values())}")


def kit_on_device(
    kit_for: KitFor, name: str, setting: str, triplets: Path, pairs: Path, **values: Any
) -> Kit:
    """The kit of a method on small corpora, on the GPU where one is."""
    fields = registry.load(name).config_type.model_fields
    corpora = {"pairs": triplets if name == "clsr" else pairs, "corpus": triplets}
    options = {key: str(path) for key, path in corpora.items() if key in fields}
    if name == "diffaug":
        options["batch_size"] = 4  # it accumulates batches of a small corpus
    kit = kit_for(name, setting=setting, **options, **values)
    kit.device = device()
    return kit


@contextmanager
def no_waiting(device: torch.device, but: Mapping[str, int] = NOTHING) -> Iterator[None]:
    """In the block, the CPU waits for the device by these operations only, and so often."""
    if device.type == "cuda":
        torch.cuda.set_sync_debug_mode("warn" if but else "error")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode("default")
        return
    with Waits() as waits, Reads():
        yield
    assert waits.found == Counter(but)


def on(place: torch.device, batch: TextBatch) -> TextBatch:
    """The batch as it is on a GPU, with its mask known on the CPU as well."""
    moved = batch.to(place)
    return replace(moved, host_mask=batch.attention_mask.clone())


@pytest.mark.slow
@pytest.mark.parametrize(("name", "setting", "values"), list(settings()))
def test_a_step_waits_for_nothing(
    kit_for: KitFor, name: str, setting: str, values: dict[str, Any], triplets: Path, pairs: Path
) -> None:
    kit = kit_on_device(kit_for, name, setting, triplets, pairs, **values)
    method = kit.build().to(kit.device)
    held = [
        each
        for value in vars(method).values()
        for each in (value, *(value if isinstance(value, list) else ()))
    ]
    for table in [each for each in held if isinstance(each, VectorTable)]:
        # As on a GPU, where it fits.
        table.on_device = torch.tensor(table.on_disk, device=kit.device)
    for stage in kit.declared.stages:
        trainable(method, stage)
        streams = stage_streams(method, kit, stage, 0)
        prepared = next(made(method, stage, streams, 0))
        batches = {key: on(kit.device, batch) for key, batch in prepared.items()}
        method.train()
        # The first step of all may wait: it makes what the next ones find.
        but = WAITING_STAGES.get((name, stage.name), NOTHING)
        for waits in (nullcontext(), no_waiting(kit.device, but)):
            with waits:
                losses = method.losses(batches, stage)
                torch.stack([losses[key].float() for key in stage.losses]).sum().backward()


@pytest.mark.slow
@pytest.mark.parametrize("accumulation", [1, 2])
def test_a_whole_step_waits_for_nothing(kit_for: KitFor, accumulation: int, triplets: Path) -> None:
    """The step includes clipping, the update, and what the record keeps of it."""
    kit = kit_for(
        "diffaug", setting="sup", batch_size=4, accumulation=accumulation, triplets=str(triplets)
    )
    kit.device = torch.device("cuda")
    steps = Steps(kit, 0)  # which checks no loss at once, as on a GPU
    kit.device = device()
    method = kit.build().to(kit.device).train()
    stage, outcome = kit.declared.stages[-1], Outcome()
    assert isinstance(kit.config, TrainingConfig)
    optimiser = stage_optimiser(stage, method, kit.config, 3, None)
    prepared = made(method, stage, stage_streams(method, kit, stage, 0), 0)
    feed = iter(
        [{key: on(kit.device, each) for key, each in next(prepared).items()} for _ in range(9)]
    )
    for step, waits in enumerate((nullcontext(), no_waiting(kit.device))):
        with waits:
            steps.run(outcome, optimiser, feed, step)
    steps.synchronise(outcome)
    norms = [each["value"] for each in outcome.curves if each["metric"] == "gradient_norm"]
    assert len(norms) == 2
    assert min(norms) > 0


@pytest.mark.parametrize(
    "operation",
    [
        lambda values: values.sum().item(),
        lambda values: values.nonzero(),
        lambda values: values[values > 0],
        lambda values: values.unique(),
        lambda values: int(values[0]),
        lambda values: bool(values.any()),
        lambda values: values.cpu(),
        lambda values: values.tolist(),
    ],
)
def test_what_waits_is_found(operation: Callable[[torch.Tensor], Any]) -> None:
    with pytest.raises(AssertionError), no_waiting(torch.device("cpu")):
        operation(torch.arange(3.0))
