"""`harness table --paper`: tables of transfer tasks, retrieval, alignment and uniformity."""

from collections.abc import Callable
from typing import Any

import pytest

from harness.plugin import registry
from harness.plugin.resolution import resolve
from harness.report.measured_trials import TABLE_COLUMNS
from harness.report.paper_cells import Comparer
from harness.report.papers import load_paper
from harness.report.quantities import PAPER_COLUMNS
from harness.trials.record_files import no_rows
from harness.trials.store import Store
from harness.trials.store_folders import DEFAULT_STORE

Add = Callable[..., str]
Paper = Callable[..., Any]

TRANSFER = ("mr", "cr", "subj", "mpqa", "sst2", "trec", "mrpc", "transfer-avg")
NEVER_RUN = "f" * 32
DIFFCSE = {
    "objective": "detection",
    "edit": "replace",
    "edited": "same",
    "contrastive": True,
    "head": "batchnorm",
}


@pytest.mark.parametrize(
    ("paper", "table", "metrics"),
    [
        ("diffcse", "table1", "sts12 sts13 sts14 sts15 sts16 stsb sickr avg"),
        ("diffcse", "table2", " ".join(TRANSFER)),
        ("diffcse", "table10", "recall@1 recall@5 recall@10"),
        ("d2cse", "table4", "recall@1 recall@3 recall@5 avg"),
        ("diffcse", "table11", "alignment uniformity avg"),
        ("d2cse", "table5", "alignment uniformity avg"),
        ("clsr", "table3", "sts12 sts13 sts14 sts15 sts16 stsb avg-without-sickr"),
    ],
)
def test_each_column_is_a_metric(paper: str, table: str, metrics: str) -> None:
    compared = Comparer(no_rows(TABLE_COLUMNS)).table(load_paper(paper), table)
    row = compared.sections[0][1][0]
    assert [each.metric.name for each in row.cells if each.metric] == metrics.split()


def test_a_stored_score_of_the_classifier_that_went_is_not_taken_for_the_papers(
    paper_table: Paper, add_trial: Add, add_evaluation: Add
) -> None:
    key = add_trial(key="0" * 32)
    add_evaluation("transfer", dict.fromkeys(TRANSFER, 80.0), of=key)
    table = paper_table("diffcse", 2)
    assert len(table.row("SimCSE-BERT base")) == 1
    assert table.evaluations == [f"{key[:24]} transfer-senteval"]


def test_geometry_has_as_many_decimals_as_are_published(
    paper_table: Paper, add_trial: Add, add_evaluation: Add
) -> None:
    for alignment in (0.2, 0.21):
        add_evaluation(
            "geometry", {"alignment": alignment, "uniformity": -2.0004}, of=add_trial(score=76.0)
        )
    assert [line[2:] for line in paper_table("diffcse", 11).row("SimCSE-BERT base")] == [
        ["", "0.177", "-2.313", "76.16"],
        ["2", "0.205±0.007", "-2.000±0.000", "76.00±0.00"],
        ["", "+0.028≈", "+0.313≠", "-0.16≠"],
    ]
    assert [line[2:] for line in paper_table("d2cse", 5).row("SimCSE-BERT base")] == [
        ["", "0.1770", "-2.3130", "76.16"],
        ["2", "0.2050±0.0071", "-2.0004±0.0000", "76.00±0.00"],
        ["", "+0.0280≈", "+0.3126≠", "-0.16≠"],
    ]


def test_columns_of_two_suites_have_two_n(
    paper_table: Paper, add_trial: Add, add_evaluation: Add
) -> None:
    keys = [add_trial(score=score) for score in (75.0, 76.0, 77.0)]
    add_evaluation("geometry", {"alignment": 0.2}, of=keys[0])
    _, ours, delta = paper_table("diffcse", 11).row("SimCSE-BERT base")
    assert ours[2:] == ["1, 3", "0.200", "", "76.00±1.00"]
    assert delta[3:] == ["+0.023", "", "-0.16≈"]


def test_scores_of_other_dev_sets_do_not_decide(paper_table: Paper, add_trial: Add) -> None:
    add_trial({"suite": "graded"}, dev={"graded-dev": 99.0}, test={"graded": 99.0}, suite="graded")
    add_trial(score=70.0)
    assert paper_table("diffcse", 1).row("SimCSE-BERT base")[1][-1] == "70.00"


# What a published table lacks of trials that are in the store: scores of one more suite.


def test_a_trial_without_the_suite_has_its_command(
    store: Store, paper_table: Paper, add_trial: Add, add_evaluation: Add
) -> None:
    keys = [add_trial(key=f"{number}" * 32, seed=number) for number in (1, 2, 3)]
    table = paper_table("diffcse", 2, DEFAULT_STORE)
    assert [line[1] for line in table.row("SimCSE-BERT base")] == ["published"]
    assert table.evaluations == [f"{each[:24]} transfer-senteval" for each in keys]
    add_evaluation("transfer-senteval", dict.fromkeys(TRANSFER, 80.0), of=keys[1], seed=2)
    table = paper_table("diffcse", 2)
    assert table.row("SimCSE-BERT base")[1][2] == "1"
    assert table.evaluations == [f"{each[:24]} transfer-senteval" for each in (keys[0], keys[2])]
    fills = f"To fill: harness sweep --paper diffcse --table 2 --store {store.folder}"
    assert fills in table.sheet.notes


def test_a_partial_evaluation_is_run_again(
    paper_table: Paper, add_trial: Add, add_evaluation: Add
) -> None:
    tested = dict.fromkeys(TRANSFER[:6], 80.0)
    add_evaluation(
        "transfer-senteval",
        tested,
        of=add_trial(key="1" * 32, seed=1),
        seed=1,
        status="partial",
        reason="no mrpc",
    )
    table = paper_table("diffcse", 2, DEFAULT_STORE)
    assert table.row("SimCSE-BERT base")[1][3:] == [*["80.00"] * 6, "", ""]
    assert table.evaluations == [f"{'1' * 24} transfer-senteval"]


def test_a_column_of_dev_scores_asks_for_dev_alone(
    paper_table: Paper, add_trial: Add, add_evaluation: Add
) -> None:
    """DiffCSE's Table 3 has the transfer tasks' dev scores; its Table 2 has their tests."""
    add_trial(key="4" * 32, seed=4)
    assert paper_table("diffcse", 3).evaluations == [f"{'4' * 24} transfer-senteval (dev)"]
    dev = {"transfer-senteval-dev": 85.0}
    add_evaluation("transfer-senteval", {}, of="4" * 32, seed=4, dev=dev)
    table = paper_table("diffcse", 3)
    assert table.evaluations == []
    assert table.row("SimCSE")[1][2:] == ["1", "80.00", "85.00"]
    assert paper_table("diffcse", 2).evaluations == [f"{'4' * 24} transfer-senteval"]


def test_the_sts_column_asks_for_sts(paper_table: Paper, add_evaluation: Add) -> None:
    pooled = {
        "method": "pooling",
        "configuration": {"pooling": "first-last-embeddings"},
        "steps": 0,
        "seed": 0,
    }
    add_evaluation("geometry", {"alignment": 0.2, "uniformity": -1.5}, of=NEVER_RUN, **pooled)
    table = paper_table("diffcse", 11, DEFAULT_STORE)
    assert table.row("Avg. BERT base")[1][2:] == ["–", "0.200", "-1.500", ""]
    assert table.evaluations == ["bert-base-uncased first-last-embeddings sts"]


def test_a_pooled_encoder_that_is_a_trial_is_named_by_its_key(
    paper_table: Paper, add_trial: Add
) -> None:
    add_trial({"pooling": "mean"}, key="6" * 32, method="pooling", steps=0)
    table = paper_table("diffcse", 2, DEFAULT_STORE)
    assert table.evaluations == [f"{'6' * 24} transfer-senteval"]


def test_dev_decides_though_another_group_was_measured(
    paper_table: Paper, add_trial: Add, add_evaluation: Add
) -> None:
    worse = {"learning_rate": 1e-5}
    add_evaluation(
        "transfer-senteval", dict.fromkeys(TRANSFER, 90.0), of=add_trial(worse), configuration=worse
    )
    add_trial(key="5" * 32, dev={"stsb-dev": 81.0})
    table = paper_table("diffcse", 2, DEFAULT_STORE)
    assert len(table.row("SimCSE-BERT base")) == 1
    assert table.evaluations == [f"{'5' * 24} transfer-senteval"]


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({}, True),
        ({"learning_rate": 3e-5}, True),
        ({"learning_rate": "3e-5"}, True),  # YAML 1.1 reads it as a text
        ({"learning_rate": 1e-5}, False),
        ({"auxiliary_weight": 0.5}, True),  # without labels it counts for nothing
        ({"rank": 4}, True),  # another method's
    ],
)
def test_given_values_are_read_as_the_method_reads_them(
    store: Store, add_trial: Add, values: dict[str, Any], found: bool
) -> None:
    config = resolve(registry.load("simcse"), {"learning_rate": 3e-5})
    add_trial(config.deciding())
    paper = load_paper("diffaug")
    table = Comparer(store.read(PAPER_COLUMNS).table, values=values).table(paper, "table1")
    numbers = [
        cell
        for cell in table.cells
        if cell.published and cell.published.row.label == "SimCSE" and cell.group
    ]
    assert bool(numbers) == found
