"""The semi-supervised schedules of semisupervised.md, declared and run."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from harness.data.batching import Stream, StreamOptions
from harness.losses.nli import triplet_loss
from harness.plugin.kit import Kit
from harness.plugin.semisupervised import (
    CLASSIFICATION,
    CONTRASTIVE,
    LABELLED,
    SemiSupervisedConfig,
)
from harness.plugin.stage import Optimisation, Stage
from harness.training.loop import Trainer
from tests.families import FAMILIES

KitFor = Callable[..., Kit]
SMALL = {
    "setting": "semisup", "max_steps": 3, "classification_max_steps": 4,
    "auxiliary_batch_size": 5, "classification_batch_size": 6,
    "classification_learning_rate": 1e-3, "learning_rate": 1e-3,
}  # fmt: skip
UNSUPERVISED = Stage(
    CONTRASTIVE,
    {"*": "learning_rate"},
    {CONTRASTIVE: 64},
    {CONTRASTIVE: 0.15},
    2,
    700,
    optimisation=Optimisation(optimiser="adamw-uncorrected"),
)


@pytest.fixture
def small(kit_for: KitFor) -> KitFor:
    def make(**values: Any) -> Kit:
        return kit_for("simcse", **{**SMALL, **values})

    return make


def build(kit: Kit) -> Any:
    torch.manual_seed(0)
    return kit.build()


def stages(**values: Any) -> list[Stage]:
    config = SemiSupervisedConfig(**{"setting": "semisup", **values})
    return config.stages_around(UNSUPERVISED)


def copies(method: Any) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in method.named_parameters()}


# What is declared


@pytest.mark.parametrize("setting", ["unsup", "sup"])
@pytest.mark.parametrize("name", ["joint", "sup-unsup", "sup-joint"])
def test_other_settings_have_the_methods_own_stage_alone(setting: str, name: str) -> None:
    assert stages(setting=setting, schedule=name) == [UNSUPERVISED]


def test_joint_adds_alpha_times_nli_to_one_pass_over_the_sentences() -> None:
    (joint,) = stages(auxiliary_weight=0.02)
    assert list(joint.streams.items()) == [(CONTRASTIVE, 64), (LABELLED, 128)], (
        "the first sets the length of an epoch"
    )
    assert dict(joint.losses) == {CONTRASTIVE: 0.15, CLASSIFICATION: 0.02}
    assert (
        replace(joint, name=CONTRASTIVE, streams=UNSUPERVISED.streams, losses=UNSUPERVISED.losses)
        == UNSUPERVISED
    )


def test_sup_unsup_is_nli_and_then_the_unsupervised_method() -> None:
    first, last = stages(schedule="sup-unsup")
    assert last == UNSUPERVISED
    assert (dict(first.streams), dict(first.losses)) == ({LABELLED: 128}, {CLASSIFICATION: 1.0})


def test_sup_joint_is_nli_and_then_joint() -> None:
    first, last = stages(schedule="sup-joint")
    assert first == stages(schedule="sup-unsup")[0]
    assert last == stages(schedule="joint")[0]


def test_classification_phase() -> None:
    """1 epoch of NLI in batches of 128 at 2e-5 with linear decay.

    Dev is scored every 50 steps, and its best checkpoint is kept.
    """
    first, _ = stages(schedule="sup-unsup")
    config = SemiSupervisedConfig(setting="semisup")
    assert config.classification_learning_rate == 2e-5
    assert dict(first.trains) == {"*": "classification_learning_rate"}
    assert (
        first.epochs,
        first.max_steps,
        first.optimisation.schedule,
        first.selection.evaluation_interval,
    ) == (1, None, "linear", 50)
    assert first.selection.own_run
    assert first.optimisation.optimiser == "adamw-uncorrected", "the method's own"
    assert (
        stages(schedule="sup-unsup", evaluation_interval=10)[0].selection.evaluation_interval == 10
    )


def test_an_unknown_schedule_is_refused() -> None:
    with pytest.raises(ValidationError, match="'joint', 'sup-unsup' or 'sup-joint'"):
        SemiSupervisedConfig(setting="semisup", schedule="unsup-sup")  # type: ignore[arg-type]


# What runs


class Recorder:
    """The streams and losses of every step, and the items that each stream gave."""

    def __init__(self, method: Any) -> None:
        self.seen: list[tuple[str, tuple[str, ...]]] = []
        self.items: list[dict[str, list[int]]] = []
        losses = method.losses

        def remember(batch: Any, stage: Stage) -> dict[str, Tensor]:
            found: dict[str, Tensor] = losses(batch, stage)
            assert set(found) == set(stage.losses)
            self.seen.append((stage.name, tuple(sorted(batch))))
            self.items.append({name: texts.items.tolist() for name, texts in batch.items()})
            return found

        method.losses = remember


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("joint", [("joint", (CONTRASTIVE, LABELLED))] * 3),
        ("sup-unsup", [(CLASSIFICATION, (LABELLED,))] * 4 + [(CONTRASTIVE, (CONTRASTIVE,))] * 3),
        (
            "sup-joint",
            [(CLASSIFICATION, (LABELLED,))] * 4 + [("joint", (CONTRASTIVE, LABELLED))] * 3,
        ),
    ],
)
def test_streams_of_every_update(
    small: KitFor, name: str, expected: list[tuple[str, tuple[str, ...]]]
) -> None:
    kit = small(schedule=name)
    method = build(kit)
    recorder = Recorder(method)
    outcome = Trainer(method, kit, 0, lambda: 1.0, lambda _: None).run()
    assert recorder.seen == expected
    assert outcome.steps == len(expected)
    last = recorder.items[-3:]
    sizes = {
        stream: max(len(items[stream]) for items in last) for stream in last[0]
    }  # an epoch has a short batch
    assert sizes == {CONTRASTIVE: 8, **({LABELLED: 5} if name != "sup-unsup" else {})}


def test_nli_starts_again_when_it_is_used_up_and_the_sentences_set_the_length(
    small: KitFor,
) -> None:
    """50 sentences in batches of 8 are 7 steps; 20 triplets in batches of 5 are used up after 4."""
    kit = small(max_steps=None)
    method = build(kit)
    recorder = Recorder(method)
    assert Trainer(method, kit, 0, lambda: 1.0, lambda _: None).run().steps == 7
    labelled = [item for step in recorder.items for item in step[LABELLED]]
    assert sorted(labelled[:20]) == list(range(20))
    assert len(labelled) == 35
    assert sorted(item for step in recorder.items for item in step[CONTRASTIVE]) == list(range(50))


def test_only_a_share_of_the_labels_and_all_sentences(small: KitFor) -> None:
    kit = small(max_steps=None, label_fraction=0.4, subset=3)
    allowed = kit.label_subset(kit.config.triplets)
    assert allowed is not None
    method = build(kit)
    recorder = Recorder(method)
    Trainer(method, kit, 0, lambda: 1.0, lambda _: None).run()
    assert (
        {item for step in recorder.items for item in step[LABELLED]}
        == set(allowed.tolist())
        < set(range(20))
    )
    assert {item for step in recorder.items for item in step[CONTRASTIVE]} == set(range(50))


@FAMILIES
def test_alpha_weighs_the_classification_alone(small: KitFor) -> None:
    """Without alpha the weights of the classifier stay, and all others change."""
    kit = small(auxiliary_weight=0)
    method = build(kit)
    before = copies(method)
    Trainer(method, kit, 0, lambda: 1.0, lambda _: None).run()
    still = {name for name, value in method.named_parameters() if torch.equal(value, before[name])}
    assert still == {"classifier.linear.weight", "classifier.linear.bias"}


@pytest.mark.parametrize(("name", "trained"), [("sup-unsup", False), ("sup-joint", True)])
def test_classifier_is_of_no_use_in_sup_unsup_and_kept_in_sup_joint(
    small: KitFor, name: str, trained: bool
) -> None:
    kit = small(schedule=name, auxiliary_weight=1.0)
    method = build(kit)
    start = copies(method)["classifier.linear.weight"]
    states: list[Tensor] = []

    def evaluate() -> float:
        states.append(method.classifier.linear.weight.detach().clone())
        return 1.0

    Trainer(method, kit, 0, evaluate, lambda _: None).run()
    after_first, after_last = states[0], states[-1]
    assert not torch.equal(after_first, start)
    assert torch.equal(after_first, after_last) is not trained


@pytest.mark.parametrize("name", ["sup-unsup", "sup-joint"])
def test_the_best_of_the_first_phase_is_where_the_second_starts_and_the_choice_starts_anew(
    small: KitFor, name: str
) -> None:
    """Dev is 5, 9, 7, 6 in the first phase, whose best is after step 2.

    Then it is 1, 3, 2. All are lower, and the second of them wins.
    """
    kit = small(schedule=name, evaluation_interval=1)
    method = build(kit)
    recorder = Recorder(method)
    scores, states = iter([5.0, 9.0, 7.0, 6.0, 1.0, 3.0, 2.0]), []
    starts: list[dict[str, Tensor]] = []
    losses = method.losses

    def watched(batch: Any, stage: Stage) -> dict[str, Tensor]:
        starts.append(copies(method))
        found: dict[str, Tensor] = losses(batch, stage)
        return found

    method.losses = watched

    def evaluate() -> float:
        states.append(copies(method))
        return next(scores)

    outcome = Trainer(method, kit, 0, evaluate, lambda _: None).run()
    assert [stage for stage, _ in recorder.seen] == [CLASSIFICATION] * 4 + [
        recorder.seen[-1][0]
    ] * 3
    for parameter, value in starts[4].items():
        assert torch.equal(value, states[1][parameter]), parameter
    assert (outcome.best_dev, outcome.best_step) == (3.0, 6)
    for parameter, value in method.named_parameters():
        assert torch.equal(value, states[5][parameter]), parameter
    assert not torch.equal(states[5]["head.linear.weight"], states[6]["head.linear.weight"])


def test_the_last_step_of_the_first_phase_is_always_evaluated(small: KitFor) -> None:
    kit = small(schedule="sup-unsup")  # 4 and 3 steps, every 50 and 125
    evaluations = []
    Trainer(
        build(kit),
        kit,
        0,
        lambda: float(len(evaluations)),
        lambda progress: evaluations.append(progress.step),
    ).run()
    assert evaluations == [4, 7]


@FAMILIES
@pytest.mark.parametrize("name", ["joint", "sup-unsup", "sup-joint"])
def test_labels_are_binary_and_from_the_training_vectors(
    small: KitFor, name: str, watch: Any
) -> None:
    """Entailment is 1 and contradiction is 0, on vectors after the training head."""
    kit = small(schedule=name)
    method = build(kit).eval()
    head = watch(method.head)
    tokens = kit.tokens(kit.config.triplets)
    texts = next(
        batch
        for batch in Stream(tokens, method.template, StreamOptions(limit=30, batch_size=6, seed=0))
        if len(batch.items) == 6
    )
    first = kit.config.stages_around(UNSUPERVISED)[0]
    batch = (
        {LABELLED: texts}
        if first.name == CLASSIFICATION
        else {LABELLED: texts, CONTRASTIVE: texts.view(0)}
    )
    found = method.losses(batch, first)[CLASSIFICATION]
    vectors = next(result for result in head.results if len(result) == 18)
    assert torch.equal(
        found, triplet_loss(method.classifier, vectors[0::3], vectors[1::3], vectors[2::3])
    )
    assert method.classifier.linear.weight.shape == (2, 3 * 32)
