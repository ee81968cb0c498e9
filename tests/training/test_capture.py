"""Captured steps train what the same steps train one operation after the other, bit for bit.

There is no GPU here. In its place a tape notes the operations of a step below autograd, and repeats
them on the same memory, as a CUDA graph does: nothing of Python runs again, a number that Python
has read stays what it was, and a step that a graph could not hold is an error.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils._pytree import tree_leaves

from harness.encoders import plain_attention
from harness.errors import Interrupted, UserError
from harness.plugin import registry
from harness.plugin.config import TrainingConfig
from harness.plugin.declared import Declared
from harness.plugin.kit import Kit
from harness.plugin.registry import Plugin
from harness.training.capture import CapturedOptimiser, bucketed
from harness.training.feeding import StepBatches
from harness.training.loop import Trainer
from harness.training.optimisers import StageOptimiser
from harness.training.progress import Outcome
from harness.training.saved_state import Checkpoint
from harness.training.seeds import seed_everything
from harness.training.steps import Steps
from tests.kits import WORDS, KitFor
from tests.matrix import trained_rows
from tests.training.test_synchronisation import Reads, Waits

Trained = tuple[dict[str, Any], Outcome]
"""The weights after a training, and its outcome"""
STEPS, RATE = 8, 2.0**-9
"""There are twice as many steps on triplets, whose shapes come again later.

So a rate is a number of float32 in every step, as that of a captured step must be."""


class Tape(Waits):
    """Notes the operations of a block, and repeats them on the same memory."""

    def __init__(self) -> None:
        super().__init__()
        self._calls: list[tuple[Any, Any, Any, Any]] = []
        self.ones: set[int] = set()

    def __torch_dispatch__(
        self, called: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        assert called is not torch.ops.aten.lift_fresh.default, "numbers of the CPU are read"
        result = super().__torch_dispatch__(called, types, args, kwargs)
        assert not self.found, f"the CPU waits for {[*self.found]}"
        if called is torch.ops.aten.ones.default:
            self.ones.add(result.data_ptr())  # the tape keeps it alive
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


class NoNumbers(Reads):
    """In the block, numbers that pass from the device to the CPU are an error."""

    def __init__(self, tape: Tape) -> None:
        super().__init__()
        self._tape = tape

    def refuses(self, called: Any, arguments: Any) -> bool:
        if called in (Tensor.numpy, Tensor.__array__):
            # A mask of ones, made on the CPU, is the same in every step.
            return arguments[0].data_ptr() not in self._tape.ones
        return called is Tensor.item or super().refuses(called, arguments)


class Stream:
    """A stream of the GPU, on which nothing is computed."""

    current: "Stream"

    def __init__(self, _device: torch.device | None = None) -> None:
        self.waits = True

    def wait_stream(self, other: "Stream") -> None:
        assert {self, other} > {Stream.current}
        self.waits = True


@contextmanager
def on_stream(stream: Stream) -> Iterator[None]:
    """torch.cuda.stream. Each stream must wait for what was computed on the other one."""
    usual, Stream.current = Stream.current, stream
    assert stream.waits
    assert usual.waits
    yield
    stream.waits = usual.waits = False
    Stream.current = usual


class Graph:
    """A CUDA graph, whose operations are on a tape."""

    launches = 0
    captured = 0

    def __init__(self) -> None:
        Graph.captured += 1
        self.tape, self._computed = Tape(), True

    def replay(self) -> None:
        Graph.launches += 1
        if not self._computed:
            self.tape.again()
        self._computed = False


@contextmanager
def capturing(graph: Graph, *, stream: Stream, **_: Any) -> Iterator[None]:
    """torch.cuda.graph. Capturing computes nothing; here it does what the first launch would do."""
    assert stream is Stream.current
    with graph.tape, NoNumbers(graph.tape):
        yield


class OneByOne(Steps):
    """The same batches, and nothing is captured."""

    def run(
        self, outcome: Outcome, optimiser: StageOptimiser, feed: Iterator[StepBatches], step: int
    ) -> Tensor:
        method: Any = optimiser.losses.__self__
        shape = method.tokenizer.pad_token_id, method.training_pieces + len(method.template)
        batches = [next(feed) for _ in range(optimiser.stage.accumulation)]
        return super().run(outcome, optimiser, iter(bucketed(batches, *shape)), step)


def derived(name: str, change: Callable[[Tensor], Tensor]) -> Plugin:
    """The method with each of its losses changed."""
    plugin = registry.load(name)

    class Derived(plugin.method):
        def losses(self, *given: Any) -> dict[str, Tensor]:
            return {name: change(loss) for name, loss in super().losses(*given).items()}

    return replace(plugin, declaration=Derived)


@pytest.fixture(autouse=True)
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Captured steps run on tapes; dropout draws by operations of torch, as on a GPU."""
    Graph.launches = Graph.captured = 0
    Stream.current = Stream()
    answers = {
        "device_count": lambda: 1, "Stream": Stream, "stream": on_stream,
        "current_stream": lambda _: Stream.current, "graph_pool_handle": object,
        "CUDAGraph": Graph, "graph": capturing,
    }  # fmt: skip
    for name, answer in answers.items():
        monkeypatch.setattr(torch.cuda, name, answer)
    # On a CPU it draws by numpy, which no tape can repeat.
    monkeypatch.setattr(plain_attention, "dropped", functional.dropout)


def trained(kit: Kit, checkpoint: Checkpoint | None = None, steps: type[Steps] = Steps) -> Trained:
    """Train the method of a kit. steps: what does its steps."""
    seed_everything(0)
    method = kit.build()
    trainer = Trainer(method, kit, 0, lambda: 0.0, lambda _: None, checkpoint)
    trainer.steps = steps(kit, 0)
    outcome = trainer.run()
    return method.state_dict(), outcome


def one_by_one(kit: Kit) -> Trained:
    """The reference: what `trained` gives where no step is captured."""
    config = kit.config.model_copy(update={"cuda_graphs": False})
    return trained(Kit(Declared(kit.declared.plugin, config), kit.device), steps=OneByOne)


def assert_equal(one: Trained, other: Trained) -> None:
    assert one[1].curves == other[1].curves
    assert len(one[1].curves) > 2 * one[1].steps
    for name, value in one[0].items():
        assert value.equal(other[0][name]), name


def kit_of(
    kit_for: KitFor, method: str | Plugin, setting: str, files: dict[str, str], **values: Any
) -> Kit:
    plugin = registry.load(method) if isinstance(method, str) else method
    fields = plugin.config_type.model_fields
    steps = 2 * STEPS if setting == "sup" else STEPS
    options = {
        "learning_rate": RATE, "stage1_learning_rate": RATE, "classification_learning_rate": RATE,
        "max_steps": steps, "stage1_steps": steps, "classification_max_steps": steps,
        "stage1_decay_steps": steps, "epochs": 8, "classification_epochs": 8, "batch_size": 4,
        "classification_batch_size": 4, "stage1_batch_size": 4, "auxiliary_batch_size": 4,
        "warmup_ratio": 0.0, "stage1_clip": "clean", "accumulation": 1, "mlm": False,
        "prompt_length": 2, "cuda_graphs": True, **files, **values,
    }  # fmt: skip
    accepted = {key: value for key, value in options.items() if key in fields}
    return kit_for(plugin, setting=setting, **accepted)


@pytest.fixture
def files(pairs: Path, tmp_path: Path) -> dict[str, str]:
    """Corpora by field. Triplets are short or long, so that their batches have several shapes."""
    draw = np.random.default_rng(0)
    rows = [[" ".join(draw.choice(WORDS, words)) for _ in "abc"] for words in (2, 12) * 10]
    path = tmp_path / "triplets.csv"
    path.write_text("\n".join(map(",".join, [["sent0", "sent1", "hard_neg"], *rows])))
    return {
        "triplets": str(path),
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
def test_every_method_trains_the_same(kit_for: KitFor, name: str, setting: str, files: Any) -> None:
    kit = kit_of(kit_for, name, setting, files)
    result = trained(kit)
    # Its prompt makes all rows long, so they are padded alike.
    assert Graph.captured >= (1 if name == "prompteol" else 2)
    assert Graph.launches > Graph.captured
    assert_equal(result, one_by_one(kit))


OPTIONS: list[tuple[str, str, dict[str, Any]]] = [
    ("simcse", "unsup", {}),
    ("simcse", "sup", {"accumulation": 2, "epochs": 16}),
    ("simcse", "unsup", {"precision": "bf16"}),
    ("simcse", "unsup", {"lora_rank": 2, "precision": "bf16"}),
    ("dcpcse", "unsup", {"precision": "bf16"}),
    ("dcpcse", "sup", {"prompts": "shallow", "accumulation": 2, "epochs": 16}),
    ("dcpcse", "sup", {"prompts": "input-layer", "hinge_weight": 0.1}),
    ("diffaug", "sup", {"augmentation": "lora"}),
    ("promptbert", "unsup", {"denoising": "none"}),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "setting", "values"),
    OPTIONS,
    ids=[f"{name}-{setting}-{'-'.join(values)}" for name, setting, values in OPTIONS],
)
def test_options_train_the_same(
    kit_for: KitFor, name: str, setting: str, values: dict[str, Any], files: Any
) -> None:
    kit = kit_of(kit_for, name, setting, files, **values)
    found = trained(kit)
    assert Graph.launches > Graph.captured >= 1
    assert_equal(found, one_by_one(kit))


@pytest.mark.slow
def test_it_does_not_matter_when_a_step_was_captured(kit_for: KitFor, tmp_path: Path) -> None:
    """A trial that gives way captures anew, and goes on with the same numbers."""
    kit = kit_of(kit_for, "simcse", "unsup", {})
    whole = trained(kit)
    captured = Graph.captured
    path = tmp_path / "checkpoint"
    asked = [*[False] * (STEPS // 2), True]
    with pytest.raises(Interrupted):
        trained(kit, Checkpoint(path, {}, lambda: asked.pop(0)))
    assert_equal(whole, trained(kit, Checkpoint(path, {})))
    assert Graph.captured > captured + 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["simcse", "promptbert"])
def test_rooms_and_wider_rows_change_last_digits_alone(
    kit_for: KitFor, name: str, files: Any
) -> None:
    """Captured steps beside those of a training without them, where nothing is dropped."""
    values = {"encoder_dropout": 0.0, "learning_rate": 2.0**-12, **files}
    kit = kit_of(kit_for, name, "sup", {}, **values)
    result = trained(kit)
    assert Graph.launches > Graph.captured > 1
    captured, plain = Graph.captured, kit_of(kit_for, name, "sup", {"cuda_graphs": False}, **values)
    other = trained(plain)
    assert Graph.captured == captured
    pairs = zip(result[1].curves, other[1].curves, strict=True)
    assert all(one["value"] == pytest.approx(two["value"], rel=1e-4) for one, two in pairs)
    for key, value in result[0].items():
        if not key.endswith("key.bias"):  # its gradient is 0, of which AdamW enlarges the rounding
            torch.testing.assert_close(value, other[0][key], rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_what_python_changes_in_every_step_is_found(kit_for: KitFor) -> None:
    """The tape tells a step that may not be captured from one that may."""
    calls = count(1)
    plugin = derived("simcse", lambda loss: loss * next(calls))
    weights, _ = trained(kit_of(kit_for, plugin, "unsup", {}))
    calls = count(1)
    others, _ = one_by_one(kit_of(kit_for, plugin, "unsup", {}))
    assert any(not value.equal(others[name]) for name, value in weights.items())


@pytest.mark.parametrize(
    "change",
    [
        lambda loss: loss * torch.tensor(2.0),
        lambda loss: loss * float(loss),
        lambda loss: loss * torch.from_numpy(loss.detach().numpy()),
        lambda loss: loss * torch.from_numpy(np.ones(1, np.float32))[0],
        lambda loss: loss * loss.tolist(),
    ],
)
def test_numbers_of_the_cpu_are_found(kit_for: KitFor, change: Any) -> None:
    kit = kit_of(kit_for, derived("simcse", change), "unsup", {})
    with pytest.raises(AssertionError, match="CPU"):
        trained(kit)


@pytest.mark.parametrize(
    ("name", "values", "why"),
    [
        ("simcse", {"engine": "ddp", "workers": 2}, "needs one process, and engine is ddp"),
        ("simcse", {"precision": "fp16"}, "scaled losses of fp16; set precision=bf16"),
        ("simcse", {"chunk_size": 4}, "chunk_size computes activations twice"),
        ("simcse", {"gradient_checkpointing": True}, "leave it out, or set cuda_graphs=false"),
        ("simcse", {"masked_language_weight": 0.1}, 'stage "contrastive" has steps that differ'),
        ("dcpcse", {"mlm": True}, 'stage "prompts" has steps that differ'),
        ("diffaug", {"setting": "sup", "stage1_clip": "released"}, "adamw-released, which is no"),
        ("esimcse", {}, "no CUDA graph can repeat it; set cuda_graphs=false"),
    ],
)
def test_what_cannot_be_captured_is_refused(
    kit_for: KitFor, name: str, values: dict[str, Any], why: str
) -> None:
    with pytest.raises(UserError, match=why):
        kit_for(name, cuda_graphs=True, **values).declared.check()


def test_a_machine_that_captures_nothing_refuses(
    kit_for: KitFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit = kit_of(kit_for, "simcse", "unsup", {})
    (stage,), method = kit.declared.stages, kit.build()
    assert isinstance(kit.config, TrainingConfig)
    with pytest.raises(UserError, match="this GPU has no bf16; set cuda_graphs=false"):
        CapturedOptimiser(stage, method, kit.config, STEPS, "cuda")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(UserError, match="needs a GPU of CUDA"):
        CapturedOptimiser(stage, method, kit.config, STEPS, None)


def test_a_trial_keeps_its_key(kit_for: KitFor) -> None:
    with_graphs, without = (kit_for("simcse", cuda_graphs=each).config for each in (True, False))
    assert with_graphs.deciding() == without.deciding()
    assert with_graphs.computed_by()["cuda_graphs"] is True
