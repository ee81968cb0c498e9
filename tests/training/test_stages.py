"""Options of a stage that the loop keeps.

Accumulation, horizons, runs of their own, moves, label subsets, items without text.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from harness import plugin
from harness.data.batching import TextBatch
from harness.data.items import label_subset
from harness.errors import UserError
from harness.plugin.kit import Kit
from harness.plugin.registry import Plugin
from harness.plugin.skeletons import momentum
from harness.plugin.stage import Batches, Optimisation, Selection, Stage
from harness.training import shared_stages
from harness.training.loop import Trainer
from harness.trials.run import trained_digest
from tests.kits import FULL, FullDisk

KitFor = Callable[..., Kit]


class Staged(plugin.Method):
    """A weight pulled to the mean item number; with the test's stages, and where it is killed."""

    config_type = plugin.TrainingConfig
    plan: list[Stage]
    dies_after: int | None

    @classmethod
    def corpora(cls, config: Any) -> dict[str, str]:
        return {"text": config.sentences, "labelled": config.triplets}

    @classmethod
    def stages(cls, config: Any) -> list[Stage]:
        return cls.plan

    def __init__(self, config: Any, kit: Kit) -> None:
        super().__init__(config, kit)
        self.weight, self.other = nn.Parameter(torch.ones(1, 1)), nn.Parameter(torch.ones(1, 1))
        self.seen: list[tuple[str, tuple[int, ...]]] = []
        self.register_buffer("passed", torch.zeros(()))
        self.batches: list[Mapping[str, TextBatch]] = []
        self.trained: list[set[str]] = []

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        if len(self.seen) == self.dies_after:
            raise KeyboardInterrupt
        texts, *_ = batch.values()
        self.batches.append(batch)
        named = self.named_parameters()
        self.trained.append({name for name, parameter in named if parameter.requires_grad})
        self.passed += 1
        self.seen.append((stage.name, tuple(texts.items.tolist())))
        noise = torch.rand(())
        return {
            "pull": ((self.weight - texts.items.double().mean()) ** 2 * (1 + noise)).sum()
            + self.other.sum() ** 2
        }

    def watched(self, stage: Stage) -> dict[str, float]:
        return {"noise": torch.rand(()).item()} if stage.shared else {}

    def embed(self, batch: TextBatch) -> Tensor:
        return torch.zeros(len(batch.items), 2)


def stage(**values: Any) -> Stage:
    spec = {
        "name": "only", "trains": {"weight": "learning_rate"}, "streams": {"text": 5},
        "losses": {"pull": 1.0},
    } | values  # fmt: skip
    for kind in (Batches, Optimisation, Selection):
        named = {field.name: spec.pop(field.name) for field in fields(kind) if field.name in spec}
        spec[kind.__name__.lower()] = kind(**named)
    return Stage(**spec)


@pytest.fixture
def run(kit_for: KitFor) -> Callable[..., tuple[Any, Trainer]]:
    """run(stages, evaluate, scored, dies_after, **configuration): trained method and trainer."""

    def go(
        stages: list[Stage],
        evaluate: Callable[[Any], float] = lambda _: 1.0,
        scored: str = "",
        dies_after: int | None = None,
        **values: Any,
    ) -> tuple[Any, Trainer]:
        planned = {"plan": stages, "dies_after": dies_after}
        plugin = Plugin("staged", type("Planned", (Staged,), planned), "0" * 16)
        kit = kit_for(plugin, **{"learning_rate": 0.1, **values})
        torch.manual_seed(0)
        built: Any = kit.build()
        trainer = Trainer(built, kit, 0, lambda: evaluate(built), lambda _: None, scored=scored)
        trainer.run()
        return built, trainer

    return go


ELSE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "the rate": ({}, {"learning_rate": 0.2}),
    "the batch": ({"streams": {"text": 8}}, {}),
    "the weight of a loss": ({"losses": {"pull": 0.1}}, {}),
    "accumulation": ({"accumulation": 2}, {}),
    "the optimiser": ({"optimiser": "lars"}, {}),
    "what trains": ({"trains": {"*": "learning_rate"}}, {}),
    "clipping": ({}, {"gradient_clipping": 1e-3}),
    "weight decay": ({"decays": "all"}, {"weight_decay": 0.5}),
    "what scores": ({}, {"scored": "another suite", "evaluate": lambda _: 2.0}),
}
"""Difference -> options of the stage and of the run"""


@pytest.mark.slow
@pytest.mark.parametrize(("options", "values"), ELSE.values(), ids=ELSE)
def test_a_stage_is_shared_by_trials_that_train_it_alike(
    run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, options: Any, values: Any
) -> None:
    """The method names none of these fields; the loop heeds them all the same."""

    def trained(cache: str, options: dict[str, Any], values: dict[str, Any]) -> list[Any]:
        monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / cache))
        stages = [stage(shared=(), decay_steps=9, max_steps=4, **options)]
        built, trainer = run(stages, **values)
        return [built.weight.item(), built.other.item(), trainer.outcome.history, len(built.seen)]

    first = trained("warm", {}, {})
    *same, steps = trained("warm", {}, {})
    assert (same, steps) == (first[:-1], 0)
    other = trained("warm", options, values)
    assert other == trained("cold", options, values)
    assert other[:-1] != same


def test_accumulation_averages_and_drops_what_is_left(run: Any) -> None:
    """50 sentences in batches of 8 are six full ones. Four make one step; the rest is left."""
    built, trainer = run([stage(streams={"text": 8}, accumulation=4, epochs=2)])
    assert trainer.outcome.steps == 2
    assert [len(items) for _, items in built.seen] == [8] * 8
    assert trainer.outcome.sentences == 64


def test_full_batches_only(run: Any) -> None:
    built, trainer = run([stage(streams={"text": 8}, full=True)])
    assert trainer.outcome.steps == 6
    assert {len(items) for _, items in built.seen} == {8}
    kept, _ = run([stage(streams={"text": 8})])
    assert sorted(len(items) for _, items in kept.seen) == [2, *[8] * 6]


def test_too_few_items_are_one_sentence(run: Any) -> None:
    sentence = "50 items are too few for a step on 4 x 20: lower accumulation or batch_size"
    with pytest.raises(UserError, match=sentence):
        run([stage(streams={"text": 20}, accumulation=4)])


def test_no_epochs_means_as_many_updates_as_said(run: Any) -> None:
    _, trainer = run([stage(epochs=None, max_steps=37)])
    assert trainer.outcome.steps == 37, "more than three epochs of 10"


def test_items_alone(run: Any) -> None:
    built, _ = run([stage(text=False)])
    assert all(batch["text"].input_ids.shape == (5, 0) for batch in built.batches)
    assert sorted(item for _, items in built.seen for item in items) == list(range(50))


def test_decay_steps_are_the_horizon_of_the_rate(run: Any) -> None:
    rates: list[float] = []
    hook = register_optimizer_step_pre_hook(
        lambda optimiser, *_: rates.append(optimiser.param_groups[0]["lr"])
    )
    try:
        run([stage(max_steps=4, decay_steps=40)])
    finally:
        hook.remove()
    assert rates == pytest.approx([0.1 * (1 - update / 40) for update in range(4)])


TWO = [
    {"name": "first", "trains": {"other": "learning_rate"}, "streams": {"text": 10}},
    {"name": "second", "streams": {"text": 10, "labelled": 8}, "epochs": 2},
]


def test_two_stages_run_with_their_parameters_and_streams(run: Any) -> None:
    built, trainer = run([stage(**TWO[0], max_steps=4), stage(**TWO[1])])
    assert trainer.outcome.steps == 4 + 10, "4 steps, then two epochs over 50 sentences in tens"
    assert built.trained == [{"other"}] * 4 + [{"weight"}] * 10
    assert trainer.outcome.trainable_parameters == 1
    second = built.batches[4:]
    assert [{*batch} for batch in built.batches[:4]] == [{"text"}] * 4
    texts, nli = (
        [int(item) for batch in second for item in batch[name].items]
        for name in ("text", "labelled")
    )
    # 20 triplets in eights: 8 + 8 + 4 an epoch, begun again three times and a bit
    assert sorted(nli[:20]) == sorted(nli[20:40]) == sorted(nli[40:60]) == list(range(20))
    assert sorted(texts[:50]) == sorted(texts[50:]) == list(range(50))


@pytest.mark.parametrize("best", [1, 6, 13])
def test_restored_state_is_that_of_the_best_step_whichever_stage(run: Any, best: int) -> None:
    """Also when stage 1 was best: what stage 2 changed goes back, buffers included."""
    states: list[list[float]] = []

    def evaluate(built: Any) -> float:
        states.append([value.item() for value in built.state_dict().values()])
        return float(len(states) == best)

    stages = [stage(**TWO[0], max_steps=4), stage(**TWO[1])]
    built, trainer = run(stages, evaluate, evaluation_interval=1)
    assert trainer.outcome.best_step == best
    assert len(states) == 14
    assert [value.item() for value in built.state_dict().values()] == states[best - 1]
    assert all(one != other for one, other in zip(states[0], states[-1], strict=True))


def test_a_run_of_its_own_hands_on_its_best_and_the_choice_starts_anew(run: Any) -> None:
    """sup-unsup: the best of the first phase goes on, and its dev score is no candidate."""
    scores = iter([5.0, 9.0, 3.0, 4.0, 2.0])
    weights: list[float] = []

    def evaluate(built: Any) -> float:
        weights.append(built.weight.item())
        return next(scores)

    first = stage(name="first", max_steps=6, evaluation_interval=2, own_run=True)
    second = stage(name="second", max_steps=4)
    built, trainer = run([first, second], evaluate, evaluation_interval=2, learning_rate=1e-3)
    assert len(weights) == 5, "at 2, 4 and 6 of the first, 2 and 4 of the second"
    assert trainer.outcome.best_dev == 4.0
    assert built.weight.item() == weights[3]
    # Adam's steps at rates 0.001 and 0.00075, from the best of the first run and not from its end
    assert weights[3] - weights[1] == pytest.approx(0.00175, rel=1e-3)
    assert abs(weights[3] - weights[2]) < 0.0015


def test_what_the_method_itself_changes_is_that_of_the_best_step(kit_for: KitFor) -> None:
    """A method may embed with the moving average of its encoder."""
    plugin = Plugin("averaged", momentum.Method, "0" * 16)
    kit = kit_for(plugin, max_steps=6, epochs=9, evaluation_interval=2, learning_rate=1e-2)
    built, averages, digests = kit.build(), list[dict[str, Tensor]](), list[str]()

    def evaluate() -> float:
        averages.append({name: each.clone() for name, each in built.state_dict().items()})
        digests.append(trained_digest(built, kit))
        return -abs(len(averages) - 2)

    Trainer(built, kit, 0, evaluate, lambda _: None).run()
    _, best, last = averages
    name = "momentum.encoder.model.embeddings.word_embeddings.weight"
    assert built.state_dict()[name].equal(best[name])
    assert not best[name].equal(last[name])
    assert trained_digest(built, kit) == digests[1]
    with torch.no_grad():
        built.momentum.encoder.model.embeddings.word_embeddings.weight += 1
    assert trained_digest(built, kit) not in digests, "it is among the weights that are kept"


def test_a_later_stage_does_not_depend_on_the_length_of_an_earlier_one(run: Any) -> None:
    """Its random numbers start anew, so that finished first stages of any length can be shared."""
    ends = []
    for length in (1, 7):
        stages = [
            stage(name="first", trains={"other": "learning_rate"}, max_steps=length),
            stage(name="second", max_steps=3),
        ]
        built, _ = run(stages, lambda built: -built.other.item() * 0 + len(built.seen))
        ends.append((built.weight.item(), [entry for entry in built.seen if entry[0] == "second"]))
    assert ends[0] == ends[1]


def test_the_share_of_labels_is_of_labelled_streams_only(run: Any) -> None:
    stages = [stage(name="one", streams={"labelled": 2}, epochs=3), stage(name="two")]
    built, _ = run(stages, label_fraction=0.4, subset=3)
    labelled = {item for name, items in built.seen if name == "one" for item in items}
    assert labelled == set(label_subset(20, 0.4, 3))
    assert {item for name, items in built.seen if name == "two" for item in items} == set(range(50))


def evaluated(run: Any, one: Stage, **values: Any) -> list[int]:
    """The steps after which a stage was scored on dev."""
    steps: list[int] = []
    run([one], lambda built: float(steps.append(len(built.seen)) or 1), **values)
    return steps


def test_with_few_labels_a_stage_is_evaluated_ten_times(run: Any) -> None:
    """diffaug.md, section 7: so few steps at an interval of 125 would not be evaluated at all."""
    labels = stage(streams={"labelled": 1}, epochs=4)
    length = 4 * len(label_subset(20, 0.5, 0))
    assert evaluated(run, labels, label_fraction=0.5)[:10] == [
        number * (length // 10) for number in range(1, 11)
    ]
    assert evaluated(run, labels) == [80]


def test_a_stage_that_the_labels_do_not_shorten_keeps_its_interval(run: Any) -> None:
    few = {"label_fraction": 0.5, "evaluation_interval": 20}
    assert evaluated(run, stage(epochs=None, max_steps=30), **few) == [20, 30]
    assert evaluated(run, stage(streams={"text": 1}, max_steps=30), **few) == [20, 30]
    labels = stage(streams={"labelled": 1}, epochs=400, max_steps=30)
    assert evaluated(run, labels, **few) == [20, 30]


SHARED = {"name": "first", "epochs": None, "shared": ("temperature",), "decay_steps": 40}


@pytest.fixture
def shared(
    run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> Callable[..., tuple[Any, Trainer]]:
    """shared(steps, cache): train a shared first stage with this cache, then a second one."""
    monkeypatch.setattr(shared_stages, "STATE_INTERVAL", 4)

    def go(
        steps: int,
        cache: str = "one",
        interval: int = 3,
        first: Mapping[str, Any] = SHARED,
        **values: Any,
    ) -> tuple[Any, Trainer]:
        monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / cache))
        stages = [
            stage(**first, max_steps=steps),
            stage(name="second", trains={"*": "learning_rate"}, max_steps=3),
        ]
        result: tuple[Any, Trainer] = run(
            stages,
            lambda built: -abs(built.weight.item() - 1.5),
            evaluation_interval=interval,
            **values,
        )
        return result

    return go


def state(outcome: tuple[Any, Trainer]) -> tuple[Any, ...]:
    built, trainer = outcome
    done = trainer.outcome
    weights = (built.weight.item(), built.other.item())
    return *weights, done.best_dev, done.best_step, done.steps, done.sentences, done.all_points()


def first_stage(outcome: tuple[Any, Trainer]) -> int:
    """Updates of the first stage that were really computed."""
    return sum(name == "first" for name, _ in outcome[0].seen)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "steps", "computed"),
    [
        ([8], 8, 0),  # the same again
        ([8], 4, 0),  # a length that the other passed through
        ([8], 12, 4),  # on from its end
        ([6], 9, 3),  # on from an end that is no multiple
        ([8], 7, 7),  # between two states, and the earlier one cannot be trained on: from the start
        ([8, 12], 16, 4),
    ],
)
def test_a_shared_stage_is_run_once_and_changes_nothing(
    shared: Any, before: list[int], steps: int, computed: int
) -> None:
    alone = shared(steps, cache="alone")
    assert first_stage(alone) == steps
    for other in before:
        shared(other)
    result = shared(steps)
    assert first_stage(result) == computed
    assert state(result) == state(alone), "to the last bit"
    history = result[1].outcome.history
    watched = [point["step"] for point in history if point["metric"] == "noise"]
    assert watched == list(range(0, steps + 1, 3)), (
        "before the first update and at every evaluation, run or not"
    )
    assert [point["step"] for point in history if point["metric"] == "dev"] == [
        step for step in range(1, steps + 4) if step % 3 == 0 or step == steps + 3
    ]


@pytest.mark.parametrize(
    ("declared", "warmup_ratio"),
    [
        ({}, 0.5),
        ({"decay_steps": None}, 0.0),
        ({"decay_steps": None, "schedule": "cosine"}, 0.0),
        ({"own_run": True}, 0.0),
    ],
)
def test_a_stage_that_depends_on_its_length_is_shared_by_trials_of_one_length(
    shared: Any, declared: Mapping[str, Any], warmup_ratio: float
) -> None:
    options = {"first": {**SHARED, **declared}, "warmup_ratio": warmup_ratio}
    alone = shared(12, cache="alone", **options)
    shared(8, **options)
    result = shared(12, **options)
    assert state(result) == state(alone)
    assert (first_stage(result), first_stage(shared(12, **options))) == (12, 0)


@pytest.mark.slow
def test_trials_that_evaluate_at_other_steps_do_not_share(shared: Any) -> None:
    """The best checkpoint and the history depend on the interval."""
    alone = shared(28, cache="alone")
    shared(28, interval=4)
    found = shared(28)
    assert state(found) == state(alone)
    assert first_stage(found) == 28


@pytest.mark.slow
def test_trials_with_few_labels_share_as_others_do(shared: Any) -> None:
    alone = shared(28, cache="alone", label_fraction=0.5)
    shared(36, label_fraction=0.5)
    found = shared(28, label_fraction=0.5)
    assert state(found) == state(alone)
    assert first_stage(found) == 0


def test_trials_that_differ_in_a_named_field_do_not_share(shared: Any) -> None:
    shared(8)
    assert first_stage(shared(8, temperature=0.1)) == 8
    assert first_stage(shared(8, batch_size=4)) == 0, "a field that the stage does not name"


def test_machines_that_round_otherwise_do_not_share(
    shared: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`precision=auto` is bf16 on one machine and fp32 on another."""
    for rounds, computed in ((True, 8), (False, 8), (True, 0)):
        monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda rounds=rounds: rounds)
        assert first_stage(shared(8, precision="auto")) == computed


def test_a_killed_first_stage_goes_on_from_its_last_state(shared: Any) -> None:
    with pytest.raises(KeyboardInterrupt):
        shared(12, dies_after=10)
    alone = shared(12, cache="alone")
    found = shared(12)
    assert first_stage(found) == 4, "from update 8"
    assert state(found) == state(alone)


def test_label_subsets_are_stable_and_of_the_right_size() -> None:
    sizes = [len(label_subset(275_601, 0.01, subset)) for subset in range(5)]
    assert np.abs(np.array(sizes) - 2756).max() < 4 * 52, "Bernoulli: sd 52"
    assert label_subset(1000, 0.1, 2) == label_subset(1000, 0.1, 2)
    assert label_subset(1000, 0.1, 2) != label_subset(1000, 0.1, 3)


def test_a_damaged_state_of_a_shared_stage_is_made_again(
    shared: Any, tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    alone = shared(8, cache="alone")
    shared(8)
    for path in (tmp_path / "one").rglob("8.safetensors"):
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
    found = shared(8)
    assert state(found) == state(alone)
    assert first_stage(found) == 8, "the state at 4 has no optimiser any more"
    assert "the state of a shared stage is made again" in caplog.text
    assert first_stage(shared(8)) == 0


def test_a_full_cache_costs_the_sharing_alone(
    shared: Any, full_disk: FullDisk, caplog: pytest.LogCaptureFixture
) -> None:
    alone = shared(8, cache="alone")
    shared(8, temperature=0.1)  # another stage; what else is cached is there then
    with full_disk():
        assert state(shared(8)) == state(alone)
    assert FULL in caplog.text
    assert first_stage(shared(8)) == 8, "nothing was kept"
