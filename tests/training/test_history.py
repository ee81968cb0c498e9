"""History of a trial along training: loss, dev score, and what its method watches.

Watching changes nothing.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

from harness import plugin
from harness.data.batching import TextBatch
from harness.plugin.kit import Kit
from harness.plugin.registry import Plugin
from harness.plugin.stage import Selection, Stage
from harness.training.loop import Trainer
from harness.training.progress import Outcome, Point, Progress

KitFor = Callable[..., Kit]


class Pulled(plugin.Method):
    """A weight behind dropout, pulled towards the mean item number of each batch, in two stages."""

    config_type = plugin.TrainingConfig
    last_is_own_run: ClassVar[bool] = False

    @classmethod
    def corpora(cls, config: Any) -> dict[str, str]:
        return {"text": config.sentences}

    @classmethod
    def stages(cls, config: Any) -> list[Stage]:
        parts: dict[str, Any] = {
            "trains": {"weight": "learning_rate"},
            "streams": {"text": 5},
            "losses": {"pull": 1.0},
            "epochs": None,
        }  # fmt: skip
        return [
            Stage(
                name="first", max_steps=5, selection=Selection(own_run=cls.last_is_own_run), **parts
            ),
            Stage(name="second", max_steps=3, **parts),
        ]

    def __init__(self, config: Any, kit: Kit) -> None:
        super().__init__(config, kit)
        self.weight = nn.Parameter(torch.ones(4))
        self.dropout = nn.Dropout(0.5)

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        return {
            "pull": (self.dropout(self.weight) - batch["text"].items.float().mean()).pow(2).mean()
        }

    def embed(self, batch: TextBatch) -> Tensor:
        return torch.zeros(len(batch.items), 2)


class Watching(Pulled):
    """Watches its weight and draws random numbers, in training mode for a while."""

    def __init__(self, config: Any, kit: Kit) -> None:
        super().__init__(config, kit)
        self.asked: list[tuple[bool, bool]] = []

    def watched(self, stage: Stage) -> dict[str, float]:
        self.asked.append((self.training, torch.is_grad_enabled()))
        self.train()
        noise = self.dropout(torch.ones(100)).mean().item()
        return {"sum": self.weight.sum().item(), "noise": noise}


class Elsewhere(Pulled):
    """Watches in its second stage only."""

    def watched(self, stage: Stage) -> dict[str, float]:
        return {"sum": self.weight.sum().item()} if stage.name == "second" else {}


Train = Callable[..., tuple[Any, Outcome, list[Progress], list[Tensor]]]


@pytest.fixture
def train(kit_for: KitFor) -> Train:
    """train(method class): the method, its outcome, its reports, its weights at each evaluation."""

    def go(
        plugin: type[plugin.Method], **values: Any
    ) -> tuple[Any, Outcome, list[Progress], list[Tensor]]:
        given = {"learning_rate": 0.1, "evaluation_interval": 2, **values}
        kit = kit_for(Plugin("pulled", plugin, "0" * 16), **given)
        torch.manual_seed(0)
        built: Any = plugin(kit.config, kit)
        reports: list[Progress] = []
        weights: list[Tensor] = []

        def evaluate() -> float:
            weights.append(built.weight.detach().clone())
            return float(built.weight.detach().sum())

        outcome = Trainer(built, kit, 0, evaluate, reports.append).run()
        return built, outcome, reports, weights

    return go


def curve(history: list[Point], metric: str) -> list[tuple[int, str, float]]:
    return [
        (point["step"], point["stage"], point["value"])
        for point in history
        if point["metric"] == metric
    ]


def test_loss_and_dev_are_those_of_the_reports(train: Train) -> None:
    """At every evaluation, with the counter that runs through both stages, and nothing else."""
    _, outcome, reports, _ = train(Pulled)
    evaluated = [report for report in reports if report.dev is not None]
    assert curve(outcome.history, "loss") == [
        (report.step, stage, report.loss)
        for report, stage in zip(evaluated, ("first", "first", "second", "second"), strict=True)
    ]
    assert [(step, value) for step, _, value in curve(outcome.history, "dev")] == [
        (report.step, report.dev) for report in evaluated
    ]
    assert [report.step for report in evaluated] == [2, 4, 6, 8]
    assert {point["metric"] for point in outcome.history} == {"loss", "dev"}


def test_watched_at_the_start_of_a_stage_and_at_every_evaluation(train: Train) -> None:
    built, outcome, _, weights = train(Watching)
    watched = curve(outcome.history, "sum")
    assert [(step, stage) for step, stage, _ in watched] == [
        (0, "first"), (2, "first"), (4, "first"), (5, "second"), (6, "second"), (8, "second"),
    ]  # fmt: skip
    assert watched[0][2] == 4.0, "the weights before the first update"
    evaluated = [value for step, _, value in watched if step not in (0, 5)]
    assert evaluated == [weight.sum().item() for weight in weights]
    assert built.asked == [(False, False)] * 6, "evaluation mode, no gradients"


def test_a_method_may_watch_one_stage_only(train: Train) -> None:
    _, outcome, _, _ = train(Elsewhere)
    assert [(step, stage) for step, stage, _ in curve(outcome.history, "sum")] == [
        (5, "second"), (6, "second"), (8, "second"),
    ]  # fmt: skip


@pytest.mark.parametrize("interval", [1, 2, 100])
def test_watching_does_not_change_the_training(train: Train, interval: int) -> None:
    """Training is the same to the last bit, although dropout and watching share a random state."""
    plain, without, _, weights = train(Pulled, evaluation_interval=interval)
    watching, with_it, _, watched_weights = train(Watching, evaluation_interval=interval)
    assert torch.equal(plain.weight, watching.weight)
    assert all(torch.equal(one, two) for one, two in zip(weights, watched_weights, strict=True))
    for metric in ("loss", "dev"):
        assert curve(without.history, metric) == curve(with_it.history, metric)
    assert len({value for _, _, value in curve(with_it.history, "noise")}) > 1


def test_training_mode_is_back_after_watching(train: Train) -> None:
    """For every update, also those after a stage's start and an evaluation."""
    modes: list[bool] = []

    class Recorded(Watching):
        def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
            modes.append(self.training)
            return super().losses(batch, stage)

        def watched(self, stage: Stage) -> dict[str, float]:
            return {"sum": 0.0}  # leaves evaluation mode as it is

    train(Recorded)
    assert modes == [True] * 8


def test_the_history_goes_on_through_runs_of_their_own(train: Train) -> None:
    """The choice of the checkpoint starts anew after one; what was remembered stays."""
    _, outcome, _, _ = train(type("Method", (Pulled,), {"last_is_own_run": True}))
    assert [(step, stage) for step, stage, _ in curve(outcome.history, "dev")] == [
        (2, "first"), (4, "first"), (5, "first"), (7, "second"), (8, "second"),
    ]  # fmt: skip
