"""The semi-supervised schedules of semisupervised.md, declared and run."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

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
from tests.methods.references import array, first_losses, labelled, nli_loss, watched

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
    """1 epoch, batches of 128, 2e-5, linear decay; the best of dev every 50 steps is kept."""
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("joint", [("joint", {CONTRASTIVE: 8, LABELLED: 5})] * 3),
        (
            "sup-unsup",
            [(CLASSIFICATION, {LABELLED: 6})] * 3
            + [(CLASSIFICATION, {LABELLED: 2})]
            + [(CONTRASTIVE, {CONTRASTIVE: 8})] * 3,
        ),
        (
            "sup-joint",
            [(CLASSIFICATION, {LABELLED: 6})] * 3
            + [(CLASSIFICATION, {LABELLED: 2})]
            + [("joint", {CONTRASTIVE: 8, LABELLED: 5})] * 3,
        ),
    ],
)
def test_streams_of_every_update(
    small: KitFor, name: str, expected: list[tuple[str, dict[str, int]]]
) -> None:
    """Stage and items of each stream; the last batch of an epoch is short."""
    kit = small(schedule=name)
    method = build(kit)
    seen: list[tuple[str, dict[str, int]]] = []
    losses = method.losses

    def remember(batch: Any, stage: Stage) -> dict[str, Tensor]:
        values: dict[str, Tensor] = losses(batch, stage)
        assert set(values) == set(stage.losses)
        seen.append((stage.name, {name: len(texts.items) for name, texts in batch.items()}))
        return values

    method.losses = remember
    outcome = Trainer(method, kit, 0, lambda: 1.0, lambda _: None).run()
    assert seen == expected
    assert outcome.steps == len(expected)


@FAMILIES
@pytest.mark.parametrize("name", ["joint", "sup-unsup"])
def test_labels_are_binary_and_from_the_training_vectors(small: KitFor, name: str) -> None:
    """Entailment is 1 and contradiction is 0, on vectors after the training head."""
    kit = small(schedule=name)
    method = build(kit).eval()
    method.encoder.checks_views = False
    (head,) = watched(method, "head")
    found = first_losses(kit, method)[CLASSIFICATION].item()
    vectors = array(next(result for result in head.results if len(result) == 18))
    assert found == pytest.approx(nli_loss(method.classifier, labelled(vectors)), rel=1e-5)
    assert method.classifier.linear.weight.shape == (2, 3 * 32)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "weight"), [("promptbert", 1.0), ("consert", 0.15)])
@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("joint", ["joint"]),
        ("sup-unsup", [CLASSIFICATION, CONTRASTIVE]),
        ("sup-joint", [CLASSIFICATION, "joint"]),
    ],
)
def test_other_methods_have_the_same_schedules(
    kit_for: KitFor, name: str, weight: float, schedule: str, expected: list[str]
) -> None:
    kit = kit_for(
        name, setting="semisup", schedule=schedule, auxiliary_weight=0.02, max_steps=2,
        classification_max_steps=2, auxiliary_batch_size=5, classification_batch_size=8,
    )  # fmt: skip
    losses = {
        CLASSIFICATION: {CLASSIFICATION: 1.0},
        CONTRASTIVE: {CONTRASTIVE: weight},
        "joint": {CONTRASTIVE: weight, CLASSIFICATION: 0.02},
    }
    stages = kit.declared.stages
    assert [stage.name for stage in stages] == expected
    assert [stage.losses for stage in stages] == [losses[name] for name in expected]
    outcome = Trainer(build(kit), kit, 0, lambda: 1.0, lambda _: None).run()
    assert outcome.steps == 2 * len(stages)
