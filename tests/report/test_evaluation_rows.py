"""A trial and its evaluations are one trial in the tables."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from harness.report.groups import Group, comparable_groups
from harness.trials.store import Store

Add = Callable[..., str]

TRANSFER = "transfer-senteval"
NEVER_RUN = "f" * 32
"""Key of a trial that is in no store"""


def group_of(store: Store) -> Group:
    (group,) = comparable_groups(store.read().table)
    return group


def test_of_a_metric_measured_twice_the_trials_own_stands(
    store: Store, add_trial: Add, add_evaluation: Add
) -> None:
    key = add_trial(score=70.0, suite="sts")
    add_evaluation(
        "sts", {"stsb": 71.0, "extra": 5.0}, of=key, dev={"stsb-dev": 1.0, "sickr-dev": 66.0}
    )
    (part,) = group_of(store).parts
    assert (part.test["stsb"].mean, part.test["extra"].mean) == (70.0, 5.0)
    assert {name: cell.mean for name, cell in part.dev.items()} == {
        "stsb-dev": 80.0,
        "sickr-dev": 66.0,
    }


@pytest.mark.parametrize("partial_first", [True, False])
def test_a_finished_evaluation_stands_before_a_partial_one(
    store: Store, add_trial: Add, add_evaluation: Add, partial_first: bool
) -> None:
    """An evaluation has another key when the missing data are there."""
    of = add_trial()
    for partial in (partial_first, not partial_first):
        found = {"status": "partial", "reason": "no trec"} if partial else {}
        add_evaluation(
            TRANSFER, {"mr": 80.0} if partial else {"mr": 81.0, "trec": 90.0}, of=of, **found
        )
    part = group_of(store).measured(TRANSFER)
    assert part is not None
    assert (part.n, part.test["mr"].mean, part.test["trec"].mean) == ("1", 81.0, 90.0)


@pytest.mark.parametrize("newest", range(3))
def test_of_several_evaluations_the_newest_stands(
    store: Store, add_trial: Add, add_evaluation: Add, newest: int
) -> None:
    """Whatever their keys are: the data of a suite, or the weights of a trial, may have changed."""
    key = add_trial()
    for number in range(3):
        day = datetime(2026, 1, 3 if number == newest else 1, tzinfo=UTC)
        add_evaluation("mine", {"mine": float(number)}, of=key, started=day)
    part = group_of(store).measured("mine")
    assert part is not None
    assert part.test["mine"].mean == newest


@pytest.mark.parametrize(
    "different",
    [
        {"encoder": "roberta-base"},
        {"precision": "bf16"},
    ],
    ids=lambda different: next(iter(different)),
)
def test_an_evaluation_of_something_else_is_not_merged(
    store: Store, add_trial: Add, add_evaluation: Add, different: dict[str, Any]
) -> None:
    add_evaluation(TRANSFER, {"mr": 80.0}, of=add_trial(), **different)
    groups = comparable_groups(store.read().table)
    assert sorted([part.suite for part in group.parts] for group in groups) == [["sts"], [TRANSFER]]


def test_another_seed_is_another_trial(store: Store, add_trial: Add, add_evaluation: Add) -> None:
    add_trial(seed=0)
    add_evaluation(TRANSFER, {"mr": 80.0}, of=NEVER_RUN, seed=1)
    group = group_of(store)
    assert [(part.suite, part.n) for part in group.parts] == [("sts", "1"), (TRANSFER, "1")]
    assert (group.n, dict(group.test)) == ("2", {})


@pytest.mark.parametrize("steps", [None, 0])
def test_a_model_that_was_never_a_trial(
    store: Store, add_evaluation: Add, steps: int | None
) -> None:
    pooled = {
        "method": "pooling",
        "configuration": {"pooling": "mean", "suite": "sts"},
        "steps": steps,
    }
    add_evaluation(TRANSFER, {"mr": 80.0}, of=NEVER_RUN, seed=0, **pooled)
    add_evaluation("geometry", {"alignment": 0.2}, of=NEVER_RUN, seed=0, **pooled)
    group = group_of(store)
    assert (group.n, group.keys, group.selects) == ("–", (NEVER_RUN,), "stsb-dev")
    assert set(group.test) == {"mr", "alignment"}


def test_a_trained_trial_that_is_gone_has_a_seed(store: Store, add_evaluation: Add) -> None:
    add_evaluation(TRANSFER, {"mr": 80.0}, of=NEVER_RUN, steps=100, seed=0)
    assert group_of(store).n == "1"


def test_what_selected_is_what_the_trials_own_row_says(
    store: Store, add_trial: Add, add_evaluation: Add
) -> None:
    key = add_trial(
        selected_by="graded-dev",
        dev={"graded-dev": 60.0},
        dev_before=40.0,
        test={"graded": 55.0},
        suite="graded",
    )
    add_evaluation("sts", {"stsb": 70.0}, of=key, dev={"stsb-dev": 81.0})
    group = group_of(store)
    assert (group.selects, group.dev_mean) == ("graded-dev", 60.0)


def test_dev_decides_over_the_trials_that_have_it(
    store: Store, add_trial: Add, add_evaluation: Add
) -> None:
    add_trial(dev={"stsb-dev": 81.0})
    add_evaluation(TRANSFER, {"mr": 80.0}, of=NEVER_RUN, seed=77)
    group = group_of(store)
    assert (group.n, group.dev_mean) == ("2", 81.0)
