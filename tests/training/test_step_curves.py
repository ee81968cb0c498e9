"""Loss terms, learning rates and gradient norms along training: the values, and how many."""

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from harness import plugin
from harness.data.batching import TextBatch
from harness.plugin.kit import Kit
from harness.plugin.registry import Plugin
from harness.plugin.stage import Stage
from harness.training.loop import Trainer
from harness.training.progress import Outcome
from harness.training.steps import KEPT_STEPS, StepCurves, interval, is_kept

KitFor = Callable[..., Kit]
STAGE = Stage("one", {}, {}, {"first": 1.0, "second": 0.5})


class Two(plugin.Method):
    """Linear losses of two weights: in batch b, from 1, 10 b + 3 w and 100 b + 8 v."""

    config_type = plugin.TrainingConfig

    @classmethod
    def corpora(cls, config: Any) -> dict[str, str]:
        return {"text": config.sentences}

    @classmethod
    def stages(cls, config: Any) -> list[Stage]:
        stage = Stage(
            name="first",
            trains={"weight": "learning_rate"},
            streams={"text": 5},
            losses={"plain": 1.0, "halved": lambda step: 0.5 / (step + 1)},
            epochs=None,
            max_steps=3,
            accumulation=2,
        )
        return [stage, replace(stage, name="second", max_steps=2, accumulation=1)]

    def __init__(self, config: Any, kit: Kit) -> None:
        super().__init__(config, kit)
        self.weight = nn.Parameter(torch.zeros(2))
        self.batches = 0

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        self.batches += 1
        first, second = self.weight.unbind()
        # What the weights add to a value is taken away again; their gradients stay.
        return {
            "plain": 10 * self.batches + 3 * (first - first.detach()),
            "halved": 100 * self.batches + 8 * (second - second.detach()),
        }

    def embed(self, batch: TextBatch) -> Tensor:
        return torch.zeros(len(batch.items), 2)


class Long(Two):
    """The same with more steps of the first stage than are kept."""

    @classmethod
    def stages(cls, config: Any) -> list[Stage]:
        first, second = super().stages(config)
        return [replace(first, max_steps=KEPT_STEPS + 100), second]


def trained(kit_for: KitFor, method: type[Two] = Two, **values: Any) -> Outcome:
    kit = kit_for(Plugin("two", method, "0" * 16), warmup_ratio=0, **values)
    built: Any = method(kit.config, kit)
    return Trainer(built, kit, 0, lambda: 1.0, lambda _: None).run()


def curve(outcome: Outcome, metric: str) -> list[tuple[int, str, float]]:
    return [
        (point["step"], point["stage"], pytest.approx(point["value"], rel=1e-6))
        for point in outcome.curves
        if point["metric"] == metric
    ]


def test_the_values_of_every_step(kit_for: KitFor) -> None:
    """Losses without their weights, as means over the batches of a step; norms before clipping."""
    outcome = trained(kit_for, learning_rate=0.3, gradient_clipping=0.1)
    assert curve(outcome, "loss/plain") == [
        (1, "first", 15.0), (2, "first", 35.0), (3, "first", 55.0),
        (4, "second", 70.0), (5, "second", 80.0),
    ]  # fmt: skip
    assert [value for _, _, value in curve(outcome, "loss/halved")] == [150, 350, 550, 700, 800]
    weights = [0.5, 0.25, 0.5 / 3, 0.5, 0.25]
    assert [value for _, _, value in curve(outcome, "gradient_norm")] == [
        (9 + (8 * weight) ** 2) ** 0.5 for weight in weights
    ]
    assert curve(outcome, "rate/learning_rate") == [
        (1, "first", 0.3), (2, "first", 0.2), (3, "first", 0.1),
        (4, "second", 0.3), (5, "second", 0.15),
    ]  # fmt: skip
    assert {point["metric"] for point in outcome.curves} == {
        "loss/plain", "loss/halved", "gradient_norm", "rate/learning_rate",
    }  # fmt: skip


def test_all_points_are_in_the_order_of_the_steps(kit_for: KitFor) -> None:
    points = trained(kit_for, evaluation_interval=2).all_points()
    assert [point["step"] for point in points] == sorted(point["step"] for point in points)
    evaluated = [point for point in points if point["metric"] in ("loss", "dev")]
    assert [point["step"] for point in evaluated] == [2, 2, 4, 4, 5, 5]


@pytest.mark.parametrize(
    ("steps", "kept", "every"),
    [(1, 1, 1), (199, 199, 1), (200, 101, 2), (399, 200, 2), (400, 101, 4), (15_625, 123, 128)],
)
def test_how_many_steps_are_kept(steps: int, kept: int, every: int) -> None:
    assert interval(steps) == every
    assert sum(is_kept(step, steps) for step in range(1, steps + 1)) == kept <= KEPT_STEPS


@pytest.mark.parametrize("seed", range(5))
def test_when_they_are_read_changes_nothing(seed: int) -> None:
    """A report, a checkpoint or a slow machine may read them at any step."""
    generator = random.Random(seed)
    steps = generator.randrange(1, 1500)

    def played(reads: float) -> Outcome:
        outcome, curves = Outcome(), StepCurves()
        for step in range(1, steps + 1):
            terms = [torch.tensor([float(step), 2.0 * step])]
            curves.note(STAGE, step, 100 + step, terms, torch.tensor(0.5), {"rate": 1 / step})
            if generator.random() < reads:
                curves.read(outcome)
        curves.read(outcome)
        return outcome

    once, often = played(0), played(0.1)
    assert once.curves == often.curves
    kept = [each["step"] - 100 for each in once.curves if each["metric"] == "loss/second"]
    assert kept == [step for step in range(1, steps + 1) if is_kept(step, steps)]
    assert [each["value"] for each in once.curves if each["metric"] == "loss/second"] == [
        2.0 * step for step in kept
    ]


def test_a_stage_leaves_the_points_of_the_one_before(kit_for: KitFor) -> None:
    first = KEPT_STEPS + 100
    kept = [step for step, _, _ in curve(trained(kit_for, Long), "loss/plain")]
    assert kept == [1, *range(2, first + 1, 2), first + 1, first + 2]


def test_an_engine_without_a_norm_leaves_it_out() -> None:
    outcome, curves = Outcome(), StepCurves()
    curves.note(STAGE, 1, 1, [torch.tensor([1.0, 2.0])], None, {"learning_rate": 0.1})
    curves.read(outcome)
    assert [point["metric"] for point in outcome.curves] == [
        "loss/first", "loss/second", "rate/learning_rate",
    ]  # fmt: skip
