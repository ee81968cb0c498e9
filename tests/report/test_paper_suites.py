"""`harness table --paper`: tables of transfer tasks, retrieval, alignment and uniformity."""

import csv
import io
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from harness.errors import UserError
from harness.report.coverage import lacking
from harness.report.matching import wanted_for
from harness.report.measured_trials import TABLE_COLUMNS
from harness.report.paper_cells import Comparer
from harness.report.papers import load_paper
from harness.report.systems import load_systems
from harness.trials.record_files import no_rows
from harness.trials.store import Store

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
        (
            "diffcse",
            "table1",
            ["sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr", "avg"],
        ),
        ("diffcse", "table2", list(TRANSFER)),
        ("diffcse", "table10", ["recall@1", "recall@5", "recall@10"]),
        ("d2cse", "table4", ["recall@1", "recall@3", "recall@5", "avg"]),
        ("diffcse", "table11", ["alignment", "uniformity", "avg"]),
        ("d2cse", "table5", ["alignment", "uniformity", "avg"]),
        (
            "clsr",
            "table3",
            ["sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "avg-without-sickr"],
        ),
    ],
)
def test_each_column_is_a_metric(paper: str, table: str, metrics: list[str]) -> None:
    compared = Comparer(no_rows(TABLE_COLUMNS)).table(load_paper(paper), table)
    row = compared.sections[0][1][0]
    assert [each.metric.name for each in row.cells if each.metric] == metrics


def test_transfer_beside_the_published(
    paper_table: Paper, add_trial: Add, add_evaluation: Add
) -> None:
    for shift in (0.0, 2.0):
        tested = dict.fromkeys(TRANSFER[:-1], 80.0 + shift) | {"transfer-avg": 85.0 + shift}
        add_evaluation("transfer-senteval", tested, of=add_trial())
    published, ours, delta = paper_table("diffcse", 2).row("SimCSE-BERT base")
    assert published[3:] == ["81.18", "86.46", "94.45", "88.88", "85.50", "89.80", "74.43", "85.81"]
    assert ours[1:] == ["ours", "2", *["81.00±1.41"] * 7, "86.00±1.41"]
    differences = ["-0.18", "-5.46", "-13.45", "-7.88", "-4.50", "-8.80", "+6.57", "+0.19"]
    assert delta[3:] == [f"{each}≈" for each in differences]  # with two seeds, ± 22 points agree


def test_a_stored_score_of_the_classifier_that_went_is_not_taken_for_the_papers(
    paper_table: Paper, add_trial: Add, add_evaluation: Add
) -> None:
    key = add_trial(key="0" * 32)
    add_evaluation("transfer", dict.fromkeys(TRANSFER, 80.0), of=key)
    table = paper_table("diffcse", 2)
    assert len(table.row("SimCSE-BERT base")) == 1
    assert table.evaluations == [f"{key[:24]} transfer-senteval"]


def test_retrieval_beside_the_published(
    paper_table: Paper, add_trial: Add, add_evaluation: Add
) -> None:
    recall = {"recall@1": 80.0, "recall@3": 85.0, "recall@5": 90.0, "recall@10": 95.0}
    add_evaluation("retrieval", recall, of=add_trial())
    _, ours, delta = paper_table("diffcse", 10).row("SimCSE-BERT base")
    assert ours[2:] == ["1", "80.00", "90.00", "95.00"]
    assert delta[3:] == ["+2.16", "-2.78", "-0.88"]  # 77.84, 92.78, 95.88


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


def test_table_1_can_be_filled_by_an_evaluation(paper_table: Paper, add_evaluation: Add) -> None:
    scores = dict.fromkeys(
        ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr", "avg"), 50.0
    )
    pooled = {
        "method": "pooling",
        "configuration": {"pooling": "first-last-embeddings"},
        "steps": None,
        "seed": 0,
    }
    add_evaluation("sts", scores, of=NEVER_RUN, **pooled)
    _, ours, delta = paper_table("diffcse", 1).row("BERT base (first-last avg.)")
    assert (ours[2], ours[-1], delta[-1]) == ("–", "50.00", "-6.70≠")


@pytest.mark.parametrize(
    ("encoder", "section", "learning_rate"),
    [("bert-base-uncased", 0, 2e-6), ("roberta-base", 1, 3e-6)],
)
def test_transfer_tuned_diffcse_is_a_run_of_its_own(
    paper_table: Paper,
    add_trial: Add,
    add_evaluation: Add,
    encoder: str,
    section: int,
    learning_rate: float,
) -> None:
    def add(tuned: dict[str, Any], number: int) -> None:
        made = {
            "method": "diffcse",
            "encoder": encoder,
            "seed": number,
            "configuration": DIFFCSE | tuned,
        }
        of = add_trial(key=f"{number}" * 32, **made)
        add_evaluation("transfer-senteval", dict.fromkeys(TRANSFER, 80.0 + number), of=of, **made)

    label = f"DiffCSE-{'BERT' if section == 0 else 'RoBERTa'} base"
    wanted = f"learning_rate={learning_rate} masking_ratio=0.15"

    def missing(table: Any) -> str:
        return "; ".join(
            str(each) for each in lacking(table.compared, 1, 1) if each.encoder == encoder
        )

    add({"learning_rate": 7e-6, "masking_ratio": 0.3, "replaced_token_weight": 0.005}, 1)
    table = paper_table("diffcse", 2)
    assert len(table.row(label, section)) == 1
    assert wanted in missing(table)
    add({"learning_rate": learning_rate, "masking_ratio": 0.15, "replaced_token_weight": 0.05}, 2)
    table = paper_table("diffcse", 2)
    assert table.row(label, section)[1][-1] == "82.00"
    assert wanted not in missing(table)


def test_a_variant_needs_a_value_for_the_encoder() -> None:
    row = (
        load_paper("diffcse")
        .tables["table2"]
        .groups[0]
        .rows[7]
        .model_copy(update={"encoder": "bert-large-uncased"})
    )
    with pytest.raises(UserError, match="diffcse has no learning_rate for bert-large-uncased"):
        wanted_for(row, load_systems().systems["diffcse"])


def test_with_and_without_the_masked_language_loss(
    paper_table: Paper, add_trial: Add, add_evaluation: Add
) -> None:
    masked = {"masked_language_weight": 0.1}
    add_evaluation(
        "transfer-senteval",
        dict.fromkeys(TRANSFER, 90.0),
        of=add_trial(masked),
        configuration=masked,
    )
    table = paper_table("diffcse", 2)
    assert table.row("SimCSE-BERT base w/ MLM")[1][-1] == "90.00"
    assert len(table.row("SimCSE-BERT base")) == 1


def test_scores_of_other_dev_sets_do_not_decide(paper_table: Paper, add_trial: Add) -> None:
    add_trial({"suite": "graded"}, dev={"graded-dev": 99.0}, test={"graded": 99.0}, suite="graded")
    add_trial(score=70.0)
    assert paper_table("diffcse", 1).row("SimCSE-BERT base")[1][-1] == "70.00"


@pytest.mark.parametrize(
    ("label", "section", "configuration"),
    [
        ("D2CSE-BERT base", 0, {"cls_prompt": False}),
        ("D2CSE-BERT base", 1, {"cls_prompt": False}),
        ("+ [CLS] Prompt", 1, {"cls_prompt": True}),
    ],
)
def test_d2cse_with_and_without_cls_prompt(
    paper_table: Paper,
    add_trial: Add,
    add_evaluation: Add,
    label: str,
    section: int,
    configuration: dict[str, Any],
) -> None:
    made = {
        "method": "d2cse",
        "setting": ("unsup", "sup")[section],
        "configuration": configuration | {"discriminator": "shared"},
    }
    add_evaluation("geometry", {"alignment": 0.1, "uniformity": -1.0}, of=add_trial(**made), **made)
    table = paper_table("d2cse", 5)
    answered = [
        line[0]
        for each in table.sheet.sections
        for line in each.lines
        if line[1] in ("published", "ours")
    ]
    assert table.row(label, section)[1][3:] == ["0.1000", "-1.0000", "75.00"]
    assert answered.count("") == 1


def test_captions_have_the_units_and_our_protocol(
    paper_table: Paper,
) -> None:
    for paper, table, start, words in (
        ("diffcse", 2, "Accuracy x100", "SentEval's own classifier"),
        ("diffcse", 10, "Recall@k, percent", "distinct sentences of STS-B test"),
        ("d2cse", 4, "Recall@k, percent", "distinct sentences of STS-B test"),
        ("diffcse", 11, "Alignment and uniformity (lower is better)", "gold score above 4"),
        ("d2cse", 5, "Alignment and uniformity (lower is better)", "gold score above 4"),
    ):
        caption = paper_table(paper, table).sheet.caption
        assert caption.startswith(start)
        assert words in caption
    assert "Ours:" not in paper_table("diffcse", 1).sheet.caption


@pytest.mark.process
def test_the_command_line_prints_and_records_the_same(
    store: Store, add_trial: Add, add_evaluation: Add
) -> None:
    spread = {"recall@1": {"standard_error": 2.5, "low": 75.0, "high": 85.0}}
    of = add_trial(key="7" * 32, seed=7)
    add_evaluation("retrieval", {"recall@1": 80.0}, of=of, seed=7, uncertainty=spread)

    def printed_as(format: str) -> str:
        command = [
            sys.executable,
            "-m",
            "harness",
            "table",
            "--paper",
            "diffcse",
            "--store",
            str(store.folder),
        ]
        return subprocess.run(
            [*command, "--format", format], capture_output=True, text=True, check=True
        ).stdout

    printed = printed_as("terminal")
    assert "+2.16" in printed
    assert f"harness sweep --paper diffcse --table 11 --store {store.folder}" in printed
    (row,) = (
        row
        for row in csv.DictReader(io.StringIO(printed_as("csv")))
        if row["column"] == "R@1" and row["delta"]
    )
    assert float(row["delta"]) == pytest.approx(80.0 - 77.84)
    assert (row["table"], row["n"], row["standard_error"], row["keys"]) == (
        "table10",
        "1",
        "2.5",
        of[:12],
    )
