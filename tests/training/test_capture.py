"""Captured steps train what the same steps train one operation after the other, bit for bit.

There is no GPU here. In its place a tape notes the operations of a step below autograd, and repeats
them on the same memory, as a CUDA graph does: nothing of Python runs again, a number that Python
has read stays what it was, and a step that a graph could not hold is an error.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from harness.data.batching import TextBatch
from harness.encoders import plain_attention
from harness.errors import UserError
from harness.plugin import registry
from harness.plugin.kit import Kit
from harness.training import capture, engines
from harness.training.capture import CapturedOptimiser, bucketed
from harness.training.feeding import StepBatches
from harness.training.loop import Trainer
from harness.training.optimisers import Compute, Done, StageOptimiser
from harness.training.progress import Outcome
from harness.training.saved_state import Checkpoint
from harness.training.seeds import seed_everything
from tests.kits import KitFor
from tests.matrix import trained_rows
from tests.training.test_synchronisation import Waits

STEPS, RATE = 16, 2.0**-9
"""With them a rate is a number of float32 in every step, as that of a captured step must be"""


class Tape(Waits):
    """Notes the operations of a block, and repeats them on the same memory."""

    def __init__(self) -> None:
        super().__init__()
        self._calls: list[tuple[Any, Any, Any, Any]] = []

    def __torch_dispatch__(
        self, called: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        assert called is not torch.ops.aten.lift_fresh.default, "numbers of the CPU are read"
        result = super().__torch_dispatch__(called, types, args, kwargs)
        assert not self.found, f"the CPU waits for {[*self.found]}"
        self._calls.append((called, args, kwargs or {}, result))
        return result

    @torch.no_grad()
    def again(self) -> None:
        for called, args, kwargs, result in self._calls:
            for old, new in zip(
                tree_leaves(result), tree_leaves(called(*args, **kwargs)), strict=True
            ):
                if isinstance(old, torch.Tensor) and old.data_ptr() != new.data_ptr():
                    old.copy_(new)


class Tapes:
    """A recorder, of which a step that is captured runs on a tape."""

    launches = 0
    captured = 0

    def computing(self) -> AbstractContextManager[None]:
        return nullcontext()

    def record(self, compute: Callable[[], Done]) -> Callable[[], Done]:
        Tapes.captured += 1
        tape, found = Tape(), []  # type: tuple[Tape, list[Done]]

        def launch() -> Done:
            Tapes.launches += 1
            if found:
                tape.again()
            else:  # capturing computes nothing, and here the first launch does both
                with tape, host_numbers_refused():
                    found.append(compute())
            return found[0]

        return launch


@contextmanager
def host_numbers_refused() -> Iterator[None]:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("numbers pass between the CPU and the device")

    with pytest.MonkeyPatch.context() as patch:
        for name in ("numpy", "tolist", "item", "cpu"):
            patch.setattr(torch.Tensor, name, refuse)
        patch.setattr(torch, "from_numpy", refuse)
        yield


class OneByOne(StageOptimiser):
    """The same batches, and nothing is captured."""

    def __init__(self, stage: Any, method: Any, *arguments: Any) -> None:
        super().__init__(stage, method, *arguments)
        self._shape = method.tokenizer.pad_token_id, method.training_pieces + len(method.template)

    def computed(self, step: int, batches: Sequence[StepBatches], compute: Compute) -> Done:
        return compute(bucketed(batches, *self._shape))


@pytest.fixture(autouse=True)
def tapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Captured steps run on tapes; dropout draws by operations of torch, as on a GPU."""
    Tapes.launches = Tapes.captured = 0
    monkeypatch.setattr(capture, "recorder", lambda _: Tapes())
    monkeypatch.setattr(plain_attention, "dropped", functional.dropout)


def trained(kit: Kit, checkpoint: Checkpoint | None = None) -> tuple[dict[str, Any], Outcome]:
    """The weights after a training, and its outcome."""
    seed_everything(0)
    method = kit.build()
    outcome = Trainer(method, kit, 0, lambda: 0.0, lambda _: None, checkpoint).run()
    return method.state_dict(), outcome


def assert_equal(
    one: tuple[dict[str, Any], Outcome], other: tuple[dict[str, Any], Outcome]
) -> None:
    assert one[1].curves == other[1].curves
    assert len(one[1].curves) > 2 * STEPS
    for name, value in one[0].items():
        assert value.equal(other[0][name]), name


def kit_of(kit_for: KitFor, name: str, setting: str, files: dict[str, str], **values: Any) -> Kit:
    fields = registry.load(name).config_type.model_fields
    given = {
        "learning_rate": RATE, "stage1_learning_rate": RATE, "classification_learning_rate": RATE,
        "max_steps": STEPS, "stage1_steps": STEPS, "classification_max_steps": STEPS,
        "stage1_decay_steps": STEPS, "epochs": 8, "classification_epochs": 8, "batch_size": 4,
        "classification_batch_size": 4, "stage1_batch_size": 4, "auxiliary_batch_size": 4,
        "warmup_ratio": 0.0, "stage1_clip": "trainable", "accumulation": 1, "mlm": False,
        "prompt_length": 2, **files, **values,
    }  # fmt: skip
    known = {key: value for key, value in given.items() if key in fields}
    return kit_for(name, setting=setting, cuda_graphs=True, **known)


@pytest.fixture
def files(pairs: Path) -> dict[str, str]:
    return {
        "pairs": str(pairs),
        "scored_pairs": f"{pairs}?first=premise&second=hypothesis&score=label",
    }


def capturable() -> Iterator[Any]:
    """Every method in every setting in which it says that its steps can be captured."""
    for name, setting in trained_rows():
        plugin = registry.load(name)
        fields = plugin.config_type.model_fields
        given = {"setting": setting, "encoder": "tiny-bert", "mlm": False}
        config = plugin.config_type(**{k: v for k, v in given.items() if k in fields})
        stages = plugin.declare(config).stages
        if all(stage.capturable for stage in stages):
            yield pytest.param(name, setting, id=f"{name}-{setting}")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "setting"), list(capturable()))
def test_every_method_trains_the_same(
    kit_for: KitFor, monkeypatch: pytest.MonkeyPatch, name: str, setting: str, files: Any
) -> None:
    kit = kit_of(kit_for, name, setting, files)
    found = trained(kit)
    assert Tapes.captured >= 2 * len(kit.declared.stages)
    assert Tapes.launches >= 2 * Tapes.captured
    monkeypatch.setattr(engines, "CapturedOptimiser", OneByOne)
    assert_equal(found, trained(kit))
