"""A trial's memory is its own, and a loss that is not finite is named."""

import gc
import math
import weakref
from contextlib import suppress
from typing import Any

import pytest
import torch
from torch import nn

from harness.device import in_precision, resolve_precision
from harness.errors import TrialFailure
from harness.plugin import registry
from harness.plugin.kit import Kit
from harness.plugin.method import Method
from harness.plugin.resolution import resolve
from harness.plugin.stage import Stage
from harness.training.loop import Trainer, restore, snapshot
from harness.training.memory import own_garbage, peak_memory
from harness.training.optimisers import LOSS_SCALE, StageOptimiser
from harness.training.progress import Outcome
from harness.training.seeds import seed_everything
from harness.training.steps import FiniteLosses
from tests.kits import KitFor

# A trial's memory is its own, also in a process that has run others.

PIECES, BYTES = 4000, 60_000


@pytest.mark.slow
def test_what_was_freed_before_does_not_count() -> None:
    """The C library would keep freed pieces between which something is left."""
    freed, kept = [], []
    for _ in range(PIECES):
        freed.append(b"x" * BYTES)
        kept.append(b"y" * 600)
    with peak_memory(torch.device("cpu")) as before:
        pass
    freed.clear()
    with peak_memory(torch.device("cpu")) as after:
        pass
    assert len(kept) == PIECES
    assert before.host - after.host > 0.8 * PIECES * BYTES / 2**20


class Circle:
    """An object that only the collector of garbage can free."""

    def __init__(self) -> None:
        self.itself = self


@pytest.mark.slow
@pytest.mark.parametrize("fails", [False, True])
def test_garbage_of_a_trial_is_gone_after_it(*, fails: bool) -> None:
    before = Circle()
    with suppress(ValueError), own_garbage():
        within = [weakref.ref(Circle()) for _ in range(3)]
        assert gc.get_freeze_count() > 0
        if fails:
            raise ValueError
    assert [circle() for circle in within] == [None] * 3
    assert gc.get_freeze_count() == 0  # of a notebook, say, whose own garbage is collected again
    of_before = weakref.ref(before)
    del before
    gc.collect()
    assert of_before() is None


# A loss that is not finite is named with its step and its stage.

ONE = Stage("one", {}, {}, {"first": 1.0})
TWO = Stage("two", {}, {}, {"first": 1.0, "second": 0.5})


def note(watch: FiniteLosses, stage: Stage, step: int, *values: float) -> None:
    watch.note(stage, step, torch.tensor(values))


def test_at_once_the_step_itself_fails() -> None:
    watch = FiniteLosses(at_once=True)
    note(watch, TWO, 1, 0.5, 2.0)
    with pytest.raises(TrialFailure) as failure:
        note(watch, TWO, 2, 0.5, math.inf)
    assert str(failure.value) == 'the loss "second" is inf in step 2 (stage "two")'


def test_read_later_the_first_bad_step_is_named() -> None:
    """The numbers of many steps are read together, as on a GPU."""
    watch = FiniteLosses(at_once=False)
    note(watch, ONE, 1, 0.5)
    watch.check()
    note(watch, ONE, 2, 0.5)
    note(watch, TWO, 3, 1.0, math.nan)
    note(watch, TWO, 4, math.nan, math.nan)
    with pytest.raises(TrialFailure) as failure:
        watch.check()
    assert str(failure.value) == 'the loss "second" is nan in step 3 (stage "two")'


# Training in fp16: losses are scaled, and a step whose gradients overflow is left out.


def optimiser_of(kit: Kit, method: Method[Any], scaling: str | None) -> StageOptimiser:
    (stage,) = kit.declared.stages
    return StageOptimiser(stage, method, kit.config, 100, scaling)


def weights(method: nn.Module) -> list[torch.Tensor]:
    return [value.detach().clone() for value in method.parameters() if value.requires_grad]


def test_scaling_changes_no_step_and_no_clipping(kit_for: KitFor) -> None:
    ends = []
    for scaling in (None, "cpu"):
        kit = kit_for("simcse")
        seed_everything(0)
        method = kit.build()
        optimiser = optimiser_of(kit, method, scaling)
        for step in range(3):
            loss = torch.stack([(value**2).sum() for value in optimiser.parameters]).sum()
            optimiser.backward(loss)
            optimiser.step(step)
        ends.append(weights(method))
    for one, other in zip(*ends, strict=True):
        assert torch.allclose(one, other, rtol=1e-6, atol=1e-8)


def test_a_state_without_a_scale_goes_on_with_one(kit_for: KitFor) -> None:
    """Another machine has begun the trial in bf16."""
    kit = kit_for("simcse")
    method = kit.build()
    plain, scaled = (optimiser_of(kit, method, scaling) for scaling in (None, "cpu"))
    plain.backward(torch.stack([value.sum() for value in plain.parameters]).sum())
    plain.step(0)
    restore(snapshot(method, [], plain, Outcome()), method, [], scaled)
    assert scaled.scaler.get_scale() == LOSS_SCALE


def test_an_overflow_leaves_the_step_out_and_halves_the_scale(kit_for: KitFor) -> None:
    kit = kit_for("simcse")
    method = kit.build()
    optimiser = optimiser_of(kit, method, "cpu")
    before = weights(method)
    optimiser.scaler.scale(torch.ones(()))
    for value in optimiser.parameters:
        value.grad = torch.full_like(value, torch.inf)
    optimiser.step(0)
    assert all(map(torch.equal, weights(method), before))
    assert optimiser.scaler.get_scale() == LOSS_SCALE / 2
    assert all(value.grad is None for value in optimiser.parameters)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["simcse", "dcpcse"])
def test_a_training_in_fp16_is_near_that_in_float32(kit_for: KitFor, name: str) -> None:
    losses: dict[str, list[float]] = {}
    for precision in ("fp32", "fp16"):
        # With a small rate, so that what rounding changes is not what later steps multiply.
        small = {"learning_rate": 1e-5, "max_steps": 4, "evaluation_interval": 1}
        kit = kit_for(name, precision=precision, **small)
        seed_everything(0)
        trainer = Trainer(kit.build(), kit, 0, lambda: 1.0, lambda _: None)
        outcome = trainer.run()
        points: list[dict[str, Any]] = outcome.history
        losses[precision] = [each["value"] for each in points if each["metric"] == "loss"]
    assert losses["fp16"] == pytest.approx(losses["fp32"], rel=0.03)
    assert losses["fp16"] != losses["fp32"]


@pytest.mark.parametrize(("bf16", "precision"), [(True, "bf16"), (False, "fp16")])
def test_a_gpu_without_bf16_computes_in_fp16(
    monkeypatch: pytest.MonkeyPatch, bf16: bool, precision: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: bf16)
    assert resolve_precision("auto", torch.device("cuda")) == precision
    plugin = registry.load("simcse")
    assert resolve(plugin, {"precision": "fp16"}).model_dump()["precision"] == "fp16"


@pytest.mark.parametrize(
    ("precision", "kind"),
    [("fp32", torch.float32), ("bf16", torch.bfloat16), ("fp16", torch.float16)],
)
def test_products_have_the_precision(precision: str, kind: torch.dtype) -> None:
    one = torch.ones(2, 2)
    with in_precision(precision, torch.device("cpu")):
        assert (one @ one).dtype == kind
