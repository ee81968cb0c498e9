"""A trial and its evaluations are one trial in the tables."""

from datetime import UTC, datetime
from typing import Any

import pytest

from harness.evaluation.catalogue import SuiteCard
from harness.report.groups import Group
from tests.report.conftest import NEVER_RUN, MadeStore

SUITE = "transfer-senteval"


def group_of(store: MadeStore) -> Group:
    (group,) = store.groups()
    return group


def test_of_a_metric_measured_twice_the_trials_own_stands(store: MadeStore) -> None:
    dev = {"stsb-dev": 1.0, "sickr-dev": 66.0}
    store.evaluation("sts", {"stsb": 71.0, "extra": 5.0}, store.trial(score=70.0), dev=dev)
    (part,) = group_of(store).parts
    assert (part.test["stsb"].mean, part.test["extra"].mean) == (70.0, 5.0)
    means = {name: cell.mean for name, cell in part.dev.items()}
    assert means == {"stsb-dev": 80.0, "sickr-dev": 66.0}


@pytest.mark.parametrize("partial_first", [True, False])
def test_a_finished_evaluation_stands_before_a_partial_one(
    store: MadeStore, partial_first: bool
) -> None:
    """An evaluation has another key when the missing data are there."""
    of = store.trial()
    for partial in (partial_first, not partial_first):
        found = {"status": "partial", "reason": "no trec"} if partial else {}
        store.evaluation(
            SUITE, {"mr": 80.0} if partial else {"mr": 81.0, "trec": 90.0}, of, **found
        )
    part = group_of(store).measured(SUITE)
    assert (part.n, part.test["mr"].mean, part.test["trec"].mean) == ("1", 81.0, 90.0)


@pytest.mark.parametrize("newest", range(3))
def test_of_several_evaluations_the_newest_stands(store: MadeStore, newest: int) -> None:
    """Whatever their keys are: the data of a suite, or the weights of a trial, may have changed."""
    key = store.trial()
    for number in range(3):
        day = datetime(2026, 1, 3 if number == newest else 1, tzinfo=UTC)
        store.evaluation("mine", {"mine": float(number)}, of=key, started=day)
    assert group_of(store).measured("mine").test["mine"].mean == newest


def test_a_dev_score_is_that_of_the_suite_with_its_data(store: MadeStore) -> None:
    """Whether another suite of this name has selected, or nothing was selected at all."""
    cards = {
        data: SuiteCard("mine", dev_tasks=("mine-dev",), data=data).dumped()
        for data in ("first", "last", "own")
    }
    devs = {"first": 10.0, "last": 20.0}
    model, trained = {"method": "pooling", "steps": 0, "seed": 0}, {"method": "simcse"}
    own = {"suite": "mine", "suite_card": cards["own"], "dev": {"mine-dev": 30.0}}
    for facts, key in ((model, NEVER_RUN), (trained, store.trial(test={"mine": 40.0}, **own))):
        for data, dev in devs.items():
            card = {"suite_card": cards[data], "dev": {"mine-dev": dev}}
            store.evaluation("mine", {"mine": 40.0}, of=key, **card, **facts)
    rows = [row for sheet in store.sheets() for row in sheet.records.to_pylist()]
    assert {
        (row["method"], row["suite_data"]): row["mean"] for row in rows if row["split"] == "dev"
    } == {
        **{(method, data): devs[data] for method in ("pooling", "simcse") for data in devs},
        ("simcse", "own"): 30.0,
    }
    shown = {
        tuple(sheet.columns[4:]): [line[4:] for section in sheet.sections for line in section.lines]
        for sheet in store.sheets()
        if "data first" in sheet.title
    }
    assert shown == {
        ("mine-dev", "mine"): [["10.00", "40.00"]],
        ("dev", "mine-dev", "mine"): [["30.00", "10.00", "40.00"]],
    }


def test_scores_of_other_data_under_one_name_are_never_averaged(store: MadeStore) -> None:
    """Seed 0 was measured on both files, seed 1 on the old one alone, seed 2 on the new one."""
    keys = [store.trial(seed=seed) for seed in range(3)]
    for data, day, of_file in (("old", 1, {0: 10.0, 1: 12.0}), ("new", 2, {0: 50.0, 2: 53.0})):
        alike = {"suite_card": SuiteCard("mine", data=data).dumped()}
        for seed, score in of_file.items():
            started = datetime(2026, 1, day, tzinfo=UTC)
            test = {"mine": score, data: score}
            store.evaluation("mine", test, of=keys[seed], seed=seed, started=started, **alike)
    parts = [part for part in group_of(store).parts if part.suite == "mine"]
    measured = {
        part.card.data: {name: score.values for name, score in part.test.items()} for part in parts
    }
    old, new = (10.0, 12.0), (50.0, 53.0)
    assert measured == {"old": {"mine": old, "old": old}, "new": {"mine": new, "new": new}}


def test_another_file_with_the_name_of_the_trials_own_has_its_own_scores(store: MadeStore) -> None:
    """The newer scores are not those of the file by which the trial was selected."""
    old, new = ({"suite_card": SuiteCard("mine", data=data).dumped()} for data in ("old", "new"))
    key = store.trial(test={"mine": 70.0}, suite="mine", **old)
    store.evaluation("mine", {"mine": 50.0}, of=key, **new)
    parts = [(part.data, part.own, part.test["mine"].mean) for part in group_of(store).parts]
    assert parts == [("old", True, 70.0), ("new", False, 50.0)]
    records = [row for sheet in store.sheets() for row in sheet.records.to_pylist()]
    measured = {row["suite_data"]: row["mean"] for row in records if row["metric"] == "mine"}
    assert measured == {"old": 70.0, "new": 50.0}


@pytest.mark.parametrize("different", [{"encoder": "roberta-base"}, {"precision": "bf16"}], ids=str)
def test_an_evaluation_of_something_else_is_not_merged(
    store: MadeStore, different: dict[str, Any]
) -> None:
    store.evaluation(SUITE, {"mr": 80.0}, of=store.trial(), **different)
    suites = sorted([part.suite for part in group.parts] for group in store.groups())
    assert suites == [["sts"], [SUITE]]


def test_another_seed_is_another_trial(store: MadeStore) -> None:
    """And dev decides over the trials that have it."""
    store.trial(seed=0, dev={"stsb-dev": 81.0})
    store.evaluation(SUITE, {"mr": 80.0}, of=NEVER_RUN, seed=1)
    group = group_of(store)
    assert [(part.suite, part.n) for part in group.parts] == [("sts", "1"), (SUITE, "1")]
    assert (group.n, dict(group.test), group.dev_mean) == ("2", {}, 81.0)


@pytest.mark.parametrize("steps", [None, 0])
def test_a_model_that_was_never_a_trial(store: MadeStore, steps: int | None) -> None:
    pooled: dict[str, Any] = {
        "method": "pooling", "configuration": {"pooling": "mean", "suite": "sts"}, "steps": steps,
    }  # fmt: skip
    store.evaluation(SUITE, {"mr": 80.0}, of=NEVER_RUN, seed=0, **pooled)
    store.evaluation("geometry", {"alignment": 0.2}, of=NEVER_RUN, seed=0, **pooled)
    group = group_of(store)
    assert (group.n, group.keys, group.selects) == ("–", (NEVER_RUN,), "stsb-dev")
    assert set(group.test) == {"mr", "alignment"}


def test_a_trained_trial_that_is_gone_has_a_seed(store: MadeStore) -> None:
    store.evaluation(SUITE, {"mr": 80.0}, of=NEVER_RUN, steps=100, seed=0)
    assert group_of(store).n == "1"


def test_what_selected_is_what_the_trials_own_row_says(store: MadeStore) -> None:
    own = {"selected_by": "graded-dev", "dev": {"graded-dev": 60.0}, "suite": "graded"}
    key = store.trial(**own, dev_before=40.0, test={"graded": 55.0})
    store.evaluation("sts", {"stsb": 70.0}, of=key, dev={"stsb-dev": 81.0})
    group = group_of(store)
    assert (group.selects, group.dev_mean) == ("graded-dev", 60.0)
