"""Declarations of a plugin: the steps of its stages, as the plan and the loop say them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.data.items import label_subset
from harness.errors import UserError
from harness.plugin import registry
from harness.plugin.kit import Kit
from harness.plugin.resolution import resolve
from harness.training.loop import Trainer
from harness.trials.trial import Trial, key

KitFor = Callable[..., Kit]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "values", "steps"),
    [
        ("simcse", {"epochs": 0.33}, 3),  # 7 batches an epoch; 2.31 steps are rounded up
        ("simcse", {"epochs": 3, "max_steps": 5}, 5),
        ("simcse", {"setting": "sup", "epochs": 2}, 6),
        ("diffaug", {"setting": "sup", "accumulation": 2, "stage1_steps": 4, "epochs": 1}, 5),
        ("clsr", {"epochs": 3}, 6),  # 20 pairs: two full batches, and the short one is dropped
        ("esimcse", {}, 7),
    ],
)
def test_the_plan_and_the_loop_have_the_same_number_of_steps(
    kit_for: KitFor, triplets: Path, method: str, values: dict[str, Any], steps: int
) -> None:
    corpus = {"pairs": str(triplets)} if method == "clsr" else {}
    kit = kit_for(method, **corpus, **values)
    assert kit.declared.steps == steps
    outcome = Trainer(kit.build(), kit, 0, lambda: 1.0, lambda _: None).run()
    assert outcome.steps == steps


@pytest.mark.slow
@pytest.mark.parametrize("subset", [0, 1, 2])
def test_a_share_of_the_labels_counts_as_it_is_drawn(kit_for: KitFor, subset: int) -> None:
    """The size of a random subset varies a little; the plan asks for the size of this one."""
    kit = kit_for("simcse", setting="sup", label_fraction=0.4, subset=subset, batch_size=2)
    items = len(label_subset(20, 0.4, subset))
    assert kit.declared.steps == 3 * -(-items // 2)
    assert Trainer(kit.build(), kit, 0, lambda: 1.0, lambda _: None).run().steps == (
        kit.declared.steps
    )


def test_a_published_size_plans_a_corpus_that_is_not_here(
    kit_for: KitFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HARNESS_HUB", raising=False)
    assert kit_for("simcse", sentences="wiki1m", batch_size=64).declared.steps == 15_625


def test_the_classifier_in_every_key_follows_from_the_suite() -> None:
    simcse = registry.load("simcse")
    plain, transfer = resolve(simcse, {}), resolve(simcse, {"suite": "transfer-senteval"})
    assert (plain.transfer_classifier, transfer.transfer_classifier) == ("minimum", "senteval")
    for config in (plain, transfer):
        recorded = config.model_dump(mode="json")
        assert resolve(simcse, recorded) == config
        recorded["transfer_classifier"] = "neither"
        with pytest.raises(UserError, match="transfer_classifier follows from the suite"):
            resolve(simcse, recorded)


BASE = {"encoder": "tiny-bert", "suite": "graded"}
UNSUP = {**BASE, "sentences": "graded-sentences"}
SUP = {**BASE, "setting": "sup", "triplets": "graded-triplets"}


@pytest.mark.parametrize(
    ("values", "void"),
    [
        (UNSUP, {"label_fraction": 0.1, "subset": 3}),
        (UNSUP, {"triplets": "graded-triplets"}),
        (SUP, {"subset": 3, "sentences": "graded-sentences"}),
        (SUP, {"lora_alpha": 3.0}),
    ],
)
def test_what_no_stage_reads_makes_no_other_trial(
    values: dict[str, Any], void: dict[str, Any]
) -> None:
    trial = Trial("simcse", values | void, 0)
    assert key(trial) == key(Trial("simcse", values, 0))
    assert trial.without_effect == sorted(void)
    assert trial.label == Trial("simcse", values, 0).label


def test_a_share_of_labels_makes_trials_of_its_own() -> None:
    share = {"label_fraction": 0.5, "subset": 3}
    keys = {
        key(Trial("simcse", SUP | values, 0)) for values in ({}, {"label_fraction": 0.5}, share)
    }
    assert len(keys) == 3
    assert not Trial("simcse", SUP | share, 0).without_effect
