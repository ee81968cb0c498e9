"""`harness table` of a store with evaluations: one sheet for each suite."""

import csv
import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pandas
import pytest

from harness.evaluation.catalogue import SuiteCard
from harness.report.store_tables import store_tables
from harness.report.tables import Table
from harness.trials.store import Store

Add = Callable[..., str]

SUITE, TRANSFER_DEV = "transfer-senteval", "transfer-senteval-dev"
TRANSFER = ("mr", "cr", "subj", "mpqa", "sst2", "trec", "mrpc", "transfer-avg")
RETRIEVAL = {"recall@10": 90.0, "recall@1": 80.0, "recall@5": 88.0, "recall@3": 85.0}
GEOMETRY = {
    "alignment": 0.0838,
    "uniformity": -1.45934,
    "mean-cosine": 0.5,
    "first-component": 0.061,
}
NEVER_RUN = "f" * 32


def sheets(store: Store) -> dict[str, Table]:
    """Title -> sheet."""
    return {sheet.title: sheet for sheet in store_tables(store.read(), Path("somewhere"))}


def lines(sheet: Table) -> list[list[str]]:
    return [line for section in sheet.sections for line in section.lines]


def table_text(*arguments: object) -> str:
    """The output of `harness table` in a process of its own."""
    command = [sys.executable, "-m", "harness", "table", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_naming_the_trials_suite_changes_nothing(store: Store, add_trial: Add) -> None:
    add_trial()
    add_trial(suite="sts")
    add_trial({"suite": "graded"}, dev={"graded-dev": 60.0}, test={"graded": 55.0})
    add_trial({"suite": "graded"}, dev={"graded-dev": 60.0}, test={"graded": 55.0}, suite="graded")
    graded, sts = store_tables(store.read(), store.folder)
    assert [lines(graded)[0][3], lines(sts)[0][3]] == ["2", "2"]
    assert {sheet.caption[:13] for sheet in (graded, sts)} == {"Spearman x100"}


def test_each_suite_has_its_columns_in_the_papers_order(
    store: Store, add_trial: Add, add_evaluation: Add
) -> None:
    key = add_trial()
    add_evaluation(SUITE, dict.fromkeys(TRANSFER, 80.0), of=key)
    add_evaluation("retrieval", RETRIEVAL, of=key)
    add_evaluation("geometry", GEOMETRY, of=key)
    assert [(title, sheet.columns[4:]) for title, sheet in sheets(store).items()] == [
        (
            "",
            [
                "dev before",
                "dev",
                "STS12",
                "STS13",
                "STS14",
                "STS15",
                "STS16",
                "STS-B",
                "SICK-R",
                "Avg.",
            ],
        ),
        (
            f"suite {SUITE}",
            ["dev", "MR", "CR", "SUBJ", "MPQA", "SST", "TREC", "MRPC", "Avg."],
        ),
        ("suite retrieval", ["dev", "R@1", "R@3", "R@5", "R@10"]),
        ("suite geometry", ["dev", "Alignment", "Uniformity", "mean cosine", "first component"]),
    ]
    assert lines(sheets(store)["suite retrieval"])[0][4:] == [
        "80.00",
        "80.00",
        "85.00",
        "88.00",
        "90.00",
    ]


def test_alignment_and_uniformity_have_four_decimals(
    store: Store, add_trial: Add, add_evaluation: Add
) -> None:
    for shift in (0.0, 0.002):
        add_evaluation("geometry", GEOMETRY | {"alignment": 0.0838 + shift}, of=add_trial())
    assert lines(sheets(store)["suite geometry"])[0][4:] == [
        "80.00±0.00",
        "0.0848±0.0014",
        "-1.4593±0.0000",
        "0.5000±0.0000",
        "0.0610±0.0000",
    ]


def test_each_suite_has_its_own_n(store: Store, add_trial: Add, add_evaluation: Add) -> None:
    keys = [add_trial(score=score) for score in (74.0, 75.0, 76.0)]
    add_evaluation(
        SUITE,
        dict.fromkeys(TRANSFER, 80.0),
        of=keys[2],
        dev={TRANSFER_DEV: 83.0},
    )
    for key, recall in zip(keys[:2], (80.0, 82.0), strict=True):
        add_evaluation("retrieval", RETRIEVAL | {"recall@1": recall}, of=key)
    found = sheets(store)
    assert [lines(sheet)[0][3] for sheet in found.values()] == ["3", "1", "2"]
    assert lines(found[""])[0][-1] == "75.00±1.00"
    assert found[f"suite {SUITE}"].columns[4:6] == ["dev", "transfer dev"]
    assert lines(found[f"suite {SUITE}"])[0][4:7] == ["80.00", "83.00", "80.00"]
    assert lines(found["suite retrieval"])[0][5] == "81.00±1.41"


def test_captions_say_what_is_measured(store: Store, add_trial: Add, add_evaluation: Add) -> None:
    key = add_trial()
    add_evaluation(SUITE, {"mr": 80.0}, of=key)
    add_evaluation("retrieval", RETRIEVAL, of=key)
    add_evaluation("geometry", GEOMETRY, of=key)
    add_evaluation("mine", {"f1": 0.5}, of=key)
    captions = {title: sheet.caption for title, sheet in sheets(store).items()}
    assert captions.pop("").startswith("Spearman x100")
    for title, words in {
        f"suite {SUITE}": ["Accuracy x100", "SentEval's own classifier", "10-fold"],
        "suite retrieval": [
            "percent",
            "distinct sentences of STS-B test",
            "both sentences of the 97 pairs",
            "removed",
        ],
        "suite geometry": ["not x100", "gold score above 4", "lower is better"],
        "suite mine": ['suite "mine"', "own units"],
    }.items():
        caption = captions.pop(title)
        assert "Spearman" not in caption
        assert "selected on dev (STS-B dev), test never selects" in caption
        assert [word for word in words if word not in caption] == []
    assert captions == {}


def test_a_partial_evaluation_is_shown_and_named(
    store: Store, add_trial: Add, add_evaluation: Add
) -> None:
    partial = {"status": "partial", "reason": "mrpc: no such file", "seed": 0}
    found = dict.fromkeys(TRANSFER[:6], 80.0) | {"transfer-avg": 80.0}
    add_evaluation(SUITE, found, of=add_trial(seed=0), **partial)
    sheet = sheets(store)[f"suite {SUITE}"]
    assert lines(sheet)[0][5:] == [*["80.00"] * 6, "", ""]
    assert list(sheet.notes) == [
        f"1 partial evaluation: simcse unsup bert-base-uncased seed 0, {SUITE} (mrpc: no such file)"
    ]


def test_what_was_made_again_is_not_named(
    store: Store, add_trial: Add, add_evaluation: Add
) -> None:
    keys = [add_trial(seed=seed) for seed in (0, 1)]
    for seed, key in enumerate(keys):
        add_evaluation("retrieval", {}, of=key, seed=seed, status="failed", reason="no data")
    add_evaluation("retrieval", RETRIEVAL, of=keys[0], seed=0)
    assert list(sheets(store)["suite retrieval"].notes) == [
        "1 failed evaluation: simcse unsup bert-base-uncased seed 1, retrieval (no data)"
    ]


def test_a_failed_evaluation_is_named_and_is_no_trial(
    store: Store, add_trial: Add, add_evaluation: Add
) -> None:
    key = add_trial(seed=0)
    add_evaluation(
        "retrieval", {}, of=key, seed=0, status="failed", reason="embeddings are not finite"
    )
    assert list(sheets(store)[""].notes) == [
        "1 failed evaluation: simcse unsup bert-base-uncased seed 0, retrieval "
        "(embeddings are not finite)"
    ]


def test_a_users_suite_has_any_names(store: Store, add_trial: Add, add_evaluation: Add) -> None:
    card = SuiteCard("mine", {"mine-avg": "Mean"}, unit="Apples", average="mine-avg")
    measured = {"zeta": 0.8123, "count": 1234.5, "mine-avg": 0.5}
    add_evaluation("mine", measured, of=add_trial(), suite_card=card.dumped())
    sheet = sheets(store)["suite mine"]
    assert sheet.columns[4:] == ["dev", "count", "zeta", "Mean"], "an average stands last"
    assert lines(sheet)[0][5:] == ["1234.50", "0.8123", "0.5000"]
    assert sheet.caption.startswith("Apples, mean±sample std")


def test_users_suites_come_last_each_in_a_sheet(
    store: Store, add_trial: Add, add_evaluation: Add
) -> None:
    key = add_trial()
    for suite in ("alpha", "geometry", "beta"):
        add_evaluation(suite, {"x": 1.0}, of=key)
    assert list(sheets(store)) == ["", "suite geometry", "suite alpha", "suite beta"]


def test_a_model_that_was_never_a_trial(store: Store, add_trial: Add, add_evaluation: Add) -> None:
    pooled = {
        "method": "pooling",
        "configuration": {"pooling": "mean", "suite": "sts"},
        "steps": None,
        "seed": 0,
    }
    add_evaluation("retrieval", RETRIEVAL, of=NEVER_RUN, **pooled)
    (sheet,) = sheets(store).values()
    assert sheet.columns[:5] == ["method", "setting", "encoder", "n", "R@1"]
    assert lines(sheet) == [
        ["pooling", "unsup", "bert-base-uncased", "–", "80.00", "85.00", "88.00", "90.00"]
    ]
    assert "selected" not in sheet.caption
    add_evaluation("retrieval", RETRIEVAL, of=add_trial())
    assert [line[4] for line in lines(sheets(store)["suite retrieval"])] == ["", "80.00"]


def test_trials_that_other_dev_scores_selected_stay_apart(
    store: Store, add_trial: Add, add_evaluation: Add
) -> None:
    add_evaluation("retrieval", RETRIEVAL, of=add_trial())
    by_graded = {"suite": "graded"}
    key = add_trial(by_graded, dev={"graded-dev": 60.0}, test={"graded": 55.0}, suite="graded")
    add_evaluation("retrieval", RETRIEVAL, of=key, configuration=by_graded)
    add_evaluation("sts", {"stsb": 70.0}, of=key, configuration=by_graded, dev={"stsb-dev": 66.0})
    found = store_tables(store.read(), store.folder)
    assert [(sheet.title, "graded-dev" in sheet.caption) for sheet in found] == [
        ("suite sts", True),
        ("", True),
        ("suite retrieval", True),
        ("", False),
        ("suite retrieval", False),
    ]
    assert found[0].columns[4:6] == ["dev", "STS-B dev"]
    assert lines(found[0])[0][4:6] == ["60.00", "66.00"]


@pytest.mark.process
@pytest.mark.parametrize("format", ["terminal", "markdown", "latex"])
def test_every_format_has_every_sheet(
    store: Store, add_trial: Add, add_evaluation: Add, format: str
) -> None:
    key = add_trial()
    add_evaluation("retrieval", RETRIEVAL, of=key)
    add_evaluation("geometry", GEOMETRY, of=key)
    printed = table_text("--store", store.folder, "--format", format)
    assert [
        word for word in ("75.00", "R@10", "85.00", "0.0838", "-1.4593") if word not in printed
    ] == []


@pytest.mark.process
def test_records_have_the_uncertainty_of_one_model(
    store: Store, add_trial: Add, add_evaluation: Add, tmp_path: Path
) -> None:
    keys = [add_trial(), add_trial()]
    interval = {"standard_error": 0.5, "low": 79.0, "high": 81.0}
    spread = {"uncertainty": {"mr": interval, "recall@1": interval, TRANSFER_DEV: interval}}
    add_evaluation(
        SUITE,
        {"mr": 80.0, "cr": 70.0},
        of=keys[0],
        dev={TRANSFER_DEV: 80.0},
        **spread,
    )
    for key in keys:
        add_evaluation("retrieval", {"recall@1": 80.0}, of=key, **spread)
    path = tmp_path / "table.parquet"
    table_text("--store", store.folder, "--format", "parquet", "--output", path)
    frame = pandas.read_parquet(path)
    known = frame[frame.standard_error.notna()]
    assert sorted(zip(known.suite, known.split, known.metric, known.n, strict=True)) == [
        (SUITE, "dev", TRANSFER_DEV, 1),
        (SUITE, "test", "mr", 1),
    ]
    assert set(zip(known.standard_error, known.low, known.high, strict=True)) == {(0.5, 79.0, 81.0)}
    assert set(frame[frame.metric == "recall@1"].n) == {2}
    assert frame[frame.metric == "stsb-dev"].split.tolist() == ["dev_before", "dev"]

    rows = list(csv.DictReader(io.StringIO(table_text("--store", store.folder, "--format", "csv"))))
    assert len(rows) == len(frame)
    (mr,) = (row for row in rows if row["metric"] == "mr")
    assert (mr["standard_error"], mr["low"], mr["high"], mr["keys"]) == (
        "0.5",
        "79.0",
        "81.0",
        keys[0][:12],
    )


@pytest.mark.process
def test_the_terminal_shows_no_uncertainty_of_one_model(
    store: Store, add_trial: Add, add_evaluation: Add
) -> None:
    spread = {"recall@1": {"standard_error": 3.33, "low": 71.11, "high": 88.88}}
    add_evaluation("retrieval", {"recall@1": 80.0}, of=add_trial(), uncertainty=spread)
    printed = table_text("--store", store.folder)
    assert "80.00" in printed
    assert not any(number in printed for number in ("3.33", "71.11", "88.88", "±0"))


def test_a_trials_own_uncertainty_is_in_the_records(store: Store, add_trial: Add) -> None:
    add_trial(uncertainty={"stsb": {"standard_error": 0.7, "low": 74.0, "high": 76.0}})
    rows = sheets(store)[""].records.to_pylist()
    assert [(row["metric"], row["standard_error"]) for row in rows if row["low"]] == [("stsb", 0.7)]
