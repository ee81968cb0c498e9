"""The training loop: optimiser and schedule in numbers, determinism, the best checkpoint."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from harness import plugin
from harness.data.batching import TextBatch
from harness.errors import Interrupted, TrialFailure, UserError
from harness.evaluation.embedder import Embedder
from harness.evaluation.suites import suite
from harness.plugin.kit import Kit
from harness.plugin.registry import Plugin
from harness.plugin.stage import Selection, Stage
from harness.training.loop import Trainer
from harness.training.progress import Outcome, Progress
from harness.training.saved_state import Checkpoint
from harness.training.seeds import seed_everything

KitFor = Callable[..., Kit]


# The optimiser in numbers: a method whose gradients are written down


class Scripted(plugin.Method):
    """loss = g_t * w with a scripted vector g_t: the gradient at step t is g_t for any weights."""

    config_type = plugin.TrainingConfig
    script: ClassVar[Sequence[Sequence[float]]] = ()
    factor: ClassVar[float | Callable[[int], float]] = 1.0

    @classmethod
    def corpora(cls, config: Any) -> dict[str, str]:
        return {"text": config.sentences}

    @classmethod
    def stages(cls, config: Any) -> list[Stage]:
        return [
            Stage("one", dict.fromkeys(("first", "second"), "learning_rate"),
                  {"text": config.batch_size},
                  {"scripted": cls.factor}, config.epochs, config.max_steps)
        ]  # fmt: skip

    def __init__(self, config: Any, kit: Kit) -> None:
        super().__init__(config, kit)
        self.first, self.second = (
            nn.Parameter(torch.zeros(1, 1)),
            nn.Parameter(torch.zeros(1, 1)),
        )  # matrices decay
        self.frozen = nn.Parameter(torch.zeros(1))
        self.seen: list[tuple[float, float]] = []
        self.update = 0

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        self.seen.append((self.first.item(), self.second.item()))
        one, two = self.script[self.update]
        self.update += 1
        return {"scripted": (one * self.first + two * self.second + 5 * self.frozen).sum()}

    def embed(self, batch: TextBatch) -> Tensor:
        raise NotImplementedError


def scripted(
    script: Sequence[Sequence[float]], factor: float | Callable[[int], float] = 1.0
) -> Plugin:
    weight = staticmethod(factor) if callable(factor) else factor
    plugin: type[Scripted] = type("Method", (Scripted,), {"script": script, "factor": weight})
    return Plugin("scripted", plugin, "0")


def train(
    kit: Kit, evaluate: Callable[[], float] = lambda: 1.0, seed: int = 0
) -> tuple[Any, Outcome]:
    seed_everything(seed)
    built = kit.build()
    outcome = Trainer(built, kit, seed, evaluate, lambda _: None).run()
    return built, outcome


def adamw(
    gradients: Sequence[Any], peak: float, *, warmup: int = 0, decay: float = 0.0, clip: float = 1.0
) -> list[np.ndarray]:
    """Weights after each step of AdamW (0.9, 0.999, 1e-8): clipping, warm-up and linear decay."""
    weights, first, second, after = np.zeros(2), np.zeros(2), np.zeros(2), []
    for update, given in enumerate(gradients):
        gradient = np.asarray(given, float)
        norm = math.sqrt(sum(gradient**2))
        gradient = gradient / max(1.0, norm / clip)
        share = (
            update / warmup
            if update < warmup
            else (len(gradients) - update) / (len(gradients) - warmup)
        )
        rate = peak * share
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        corrected = first / (1 - 0.9 ** (update + 1)), second / (1 - 0.999 ** (update + 1))
        weights = weights * (1 - rate * decay) - rate * corrected[0] / (
            np.sqrt(corrected[1]) + 1e-8
        )
        after.append(weights)
    return after


GRADIENTS = [
    (30.0, 40.0),
    (0.1, -0.2),
    (0.5, 0.5),
    (-3.0, 4.0),
    (0.01, 0.3),
    (1.0, 1.0),
    (0.2, -9.0),
    (0.3, 0.1),
]


@pytest.mark.parametrize(
    ("options", "reference"),
    [
        ({}, {}),
        ({"gradient_clipping": 0.3}, {"clip": 0.3}),
        ({"warmup_ratio": 0.3}, {"warmup": 3}),  # ceil(0.3 * 8)
        ({"weight_decay": 0.5}, {"decay": 0.5}),
    ],
)
def test_updates_against_adamw_written_out(
    kit_for: KitFor, options: dict[str, Any], reference: dict[str, Any]
) -> None:
    kit = kit_for(scripted(GRADIENTS), learning_rate=0.05, max_steps=8, epochs=9, **options)
    built, outcome = train(kit)
    expected = adamw(GRADIENTS, 0.05, **reference)
    found = [*built.seen[1:], (built.first.item(), built.second.item())]
    assert outcome.steps == 8
    assert np.abs(np.array(found) - np.array(expected)).max() < 1e-5
    assert np.abs(expected[-1] - adamw(GRADIENTS, 0.05, clip=1e9)[-1]).max() > 1e-3, (
        "clipping must matter here"
    )
    assert built.frozen.item() == 0
    assert built.frozen.grad is None


def test_loss_weight_may_depend_on_the_update(kit_for: KitFor) -> None:
    script = [(0.1, 0.2)] * 5
    built, _ = train(
        kit_for(scripted(script, lambda update: update - 2.0), learning_rate=0.05, max_steps=5)
    )
    weighed = [(0.1 * (update - 2), 0.2 * (update - 2)) for update in range(5)]
    assert np.allclose(
        [built.first.item(), built.second.item()], adamw(weighed, 0.05)[-1], atol=1e-6
    )


@pytest.mark.parametrize(
    ("epochs", "max_steps", "expected"), [(1, None, 7), (2, None, 14), (0.5, None, 4), (2, 5, 5)]
)
def test_number_of_steps(
    kit_for: KitFor, epochs: float, max_steps: int | None, expected: int
) -> None:
    """50 sentences in batches of 8: 7 steps an epoch, the short last batch among them."""
    kit = kit_for(scripted([(1.0, 1.0)] * 20), epochs=epochs, max_steps=max_steps)
    built, outcome = train(kit)
    assert (outcome.steps, built.update) == (expected, expected)
    if max_steps is None and epochs >= 1:
        assert outcome.sentences == 50 * epochs


@pytest.mark.parametrize(
    ("scores", "best"),
    [
        ([1, 5, 3, 2], 1),
        ([1, 2, 3, 4], 3),
        ([4, 3, 2, 1], 0),
        ([1, 5, 5, 2], 1),
        ([-3, -1, -2, -4], 1),
    ],
)
def test_best_checkpoint_is_restored(kit_for: KitFor, scores: list[float], best: int) -> None:
    """Strictly better only: the first of two equal scores stays."""
    remaining = iter(scores)
    kit = kit_for(
        scripted(GRADIENTS), learning_rate=0.05, max_steps=8, epochs=9, evaluation_interval=2
    )
    built, outcome = train(kit, lambda: next(remaining))
    assert next(remaining, None) is None
    step = 2 * (best + 1)
    assert (outcome.best_dev, outcome.best_step) == (scores[best], step)
    expected = adamw(GRADIENTS, 0.05)[step - 1]
    assert np.allclose([built.first.item(), built.second.item()], expected, atol=1e-5)


def test_reports_say_where_the_trial_is(kit_for: KitFor) -> None:
    reports: list[Progress] = []
    kit = kit_for(
        scripted([(0.0, 1.0)] * 8), learning_rate=0.1, max_steps=8, epochs=9, evaluation_interval=3
    )
    Trainer(kit.build(), kit, 0, lambda: 7.0, reports.append).run()
    evaluated = [(one.step, one.total_steps, one.dev) for one in reports if one.dev is not None]
    assert evaluated == [(3, 8, 7.0), (6, 8, 7.0), (8, 8, 7.0)]
    # the loss of step 3 is that of the weights before it: 2 steps of 0.1 * (8, 7) / 8
    third = next(one for one in reports if one.step == 3)
    assert third.loss == pytest.approx(-0.1 * (8 + 7) / 8, rel=1e-4)
    assert third.sentences_per_second > 0


def patient(patience: int | None, stages: int = 1) -> Plugin:
    """A scripted method whose first stage has this patience; further stages have none."""

    def declared(_cls: Any, config: Any) -> list[Stage]:
        [stage] = Scripted.stages(config)
        first = replace(stage, selection=Selection(patience=patience))
        return [first, *(replace(stage, name=f"stage {number}") for number in range(1, stages))]

    script = scripted([(0.0, 1.0)] * 20).method
    return Plugin("scripted", type("Method", (script,), {"stages": classmethod(declared)}), "0")


@pytest.mark.parametrize(
    ("patience", "scores", "steps", "best"),
    [
        (2, [1, 5, 3, 4], 8, 4),
        (2, [1, 0, 2, 1, 3, 2, 2], 14, 10),  # a gain sets the count back
        (2, [2, 2, 2], 6, 2),  # an equal score is no gain
        (1, [1, 2, 3, 4, 5, 6, 7, 8], 16, 16),
        (None, [8, 7, 6, 5, 4, 3, 2, 1], 16, 2),
    ],
)
def test_patience_ends_a_stage(
    kit_for: KitFor, patience: int | None, scores: list[float], steps: int, best: int
) -> None:
    remaining, reports = iter(scores), list[Progress]()
    kit = kit_for(patient(patience), max_steps=16, epochs=9, evaluation_interval=2)
    outcome = Trainer(kit.build(), kit, 0, lambda: next(remaining), reports.append).run()
    assert next(remaining, None) is None
    assert (outcome.steps, outcome.best_step) == (steps, best)
    # The last report says that the trial is at its end, whatever the plan was.
    assert (reports[-1].step, reports[-1].total_steps) == (steps, steps)
    assert kit.declared.steps == 16


def test_a_stage_after_one_that_ended_early_has_all_of_its_steps(kit_for: KitFor) -> None:
    scores, seen = iter([3, 2, 1, *range(4, 20)]), list[int]()
    kit = kit_for(patient(2, stages=2), max_steps=7, epochs=9, evaluation_interval=2)
    built = kit.build()
    outcome = Trainer(
        built, kit, 0, lambda: seen.append(built.update) or next(scores), lambda _: None
    ).run()
    assert seen == [2, 4, 6, 8, 10, 12, 13], "6 of 7 steps, then 7"
    assert (outcome.steps, outcome.best_step) == (13, 13)


@pytest.mark.slow
@pytest.mark.parametrize("stop", [3, 5, 8])
@pytest.mark.parametrize("stages", [1, 2])
def test_a_resumed_stage_keeps_its_patience(
    kit_for: KitFor, stages: int, stop: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The training gives way after `stop` steps and goes on from its checkpoint."""
    monkeypatch.setenv("HARNESS_CHECKPOINT_MINUTES", "0")
    kit = kit_for(patient(2, stages), max_steps=10, epochs=9, evaluation_interval=2)
    scores = {2: 1.0, 4: 5.0, 6: 3.0, 8: 4.0}

    def run(asked: Callable[[int], bool]) -> Outcome:
        built = kit.build()
        trainer = Trainer(built, kit, 0, lambda: 0.0, lambda _: None)
        trainer.evaluate = lambda: scores.get(trainer.outcome.steps, 0.0)
        trainer.checkpoint = Checkpoint(
            tmp_path / "checkpoint", {}, lambda: asked(trainer.outcome.steps)
        )
        try:
            return trainer.run()
        except Interrupted:
            return trainer.outcome

    assert run(lambda step: step == stop).steps == stop
    outcome = run(lambda _: False)
    assert outcome.best_step == 4
    assert outcome.steps == (8 if stages == 1 else 18)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_loss_that_is_not_finite_fails_the_trial(kit_for: KitFor, bad: float) -> None:
    kit = kit_for(scripted([(1.0, 1.0), (bad, 1.0), (1.0, 1.0)]), max_steps=3)
    with pytest.raises(TrialFailure) as failure:
        train(kit)
    # the weights are negative after the first step
    assert str(failure.value) == f'the loss "scripted" is {-bad} in step 2 (stage "one")'


@pytest.mark.parametrize(
    ("returned", "sentence"),
    [
        (lambda loss: loss, "losses() must return ['scripted'], but it returned Tensor"),
        (lambda loss: {"other": loss}, "must return ['scripted'], but it returned ['other']"),
        (lambda loss: {"scripted": loss.repeat(8)}, 'the loss "scripted" is not a scalar tensor'),
        (lambda _: {"scripted": 1.0}, "is not a scalar tensor but float"),
    ],
)
def test_losses_of_another_shape_fail_the_trial(
    kit_for: KitFor, returned: Callable[[Tensor], Any], sentence: str
) -> None:
    """The sum of a loss of rows would train, too."""

    class Method(Scripted):
        script = ((1.0, 1.0),)

        def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> Any:
            return returned(super().losses(batch, stage)["scripted"])

    kit = kit_for(Plugin("scripted", Method, "0"), max_steps=1)
    with pytest.raises(TrialFailure) as failure:
        train(kit)
    assert sentence in str(failure.value)


def test_stage_that_trains_nothing_is_refused(kit_for: KitFor) -> None:
    plugin = scripted(GRADIENTS)
    stages = classmethod(
        lambda _cls, _config: [Stage("lost", {"nothing.*": "learning_rate"}, {"text": 8}, {})]
    )
    lost = Plugin("lost", type("Method", (plugin.method,), {"stages": stages}), "0")
    with pytest.raises(
        UserError, match=r'stage "lost" trains "nothing\.\*", which matches no parameter'
    ):
        train(kit_for(lost))


# Determinism, with the shipped methods on the embedded model


def trained(
    kit_for: KitFor, name: str, seed: int, **values: Any
) -> tuple[dict[str, Tensor], list[float]]:
    kit = kit_for(
        name, encoder="tiny-bert", sentences="graded-sentences", batch_size=16, max_steps=4,
        **{"evaluation_interval": 2, "learning_rate": 1e-3} | values,
    )  # fmt: skip
    seed_everything(seed)
    built = kit.build()
    embedder, scores = Embedder(built, kit), []

    def evaluate() -> float:
        scores.append(suite("graded").score_dev(embedder))
        return len(scores)  # the last one counts, so that weights can be compared

    Trainer(built, kit, seed, evaluate, lambda _: None).run()
    return {key: value.clone() for key, value in built.state_dict().items()}, scores


def same(one: dict[str, Tensor], two: dict[str, Tensor]) -> bool:
    return one.keys() == two.keys() and all(torch.equal(one[key], two[key]) for key in one)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["simcse", "d2cse"])
def test_a_seed_decides_weights_and_scores(kit_for: KitFor, name: str) -> None:
    weights, scores = trained(kit_for, name, 3)
    again, scores_again = trained(kit_for, name, 3)
    assert same(weights, again)
    assert scores == scores_again
    other, other_scores = trained(kit_for, name, 4)
    assert not same(weights, other)
    assert scores != other_scores


@pytest.mark.slow
def test_evaluating_more_often_does_not_change_the_training(kit_for: KitFor) -> None:
    often, scores = trained(kit_for, "d2cse", 0, evaluation_interval=1)
    seldom, _ = trained(kit_for, "d2cse", 0, evaluation_interval=100)
    assert len(scores) == 4
    assert same(often, seldom)


def test_the_seed_also_draws_the_batches(kit_for: KitFor) -> None:
    seen: dict[int, list[Tensor]] = {}

    def losses(self: Scripted, batch: Mapping[str, TextBatch], _stage: Stage) -> dict[str, Tensor]:
        seen.setdefault(self.which, []).append(batch["text"].items.clone())  # type: ignore[attr-defined]
        return {"scripted": self.first.sum()}

    plugin = Plugin("listing", type("Method", (Scripted,), {"losses": losses}), "0")
    for which, seed in enumerate((1, 1, 2)):
        kit = kit_for(plugin, epochs=2)
        built: Any = kit.build()
        built.which = which
        Trainer(built, kit, seed, lambda: 1.0, lambda _: None).run()
    orders = [torch.cat(items).tolist() for items in seen.values()]
    assert orders[0] == orders[1] != orders[2]
    assert orders[0][:50] != orders[0][50:], "reshuffled every epoch"
    assert sorted(orders[0][:50]) == sorted(orders[0][50:]) == list(range(50))
