"""A store whose numbers are known: every cell of its tables is computed by hand.

Three methods with seeds, one of them with a gap; a model that does not train; label subsets; a
failed trial, a search trial, a duplicate in two files, another protocol, and another encoder.
"""

from collections.abc import Callable
from math import sqrt
from pathlib import Path
from shutil import copy

import pytest

from harness import PROTOCOL
from harness.report.cells import Cell
from harness.report.store_tables import store_tables
from harness.report.tables import Table
from harness.trials.store import Store
from tests.report.conftest import adding

AddTrial = Callable[..., str]

TASKS = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr")


def scores(*values: float, average: float | None = None) -> dict[str, float]:
    """The scores of the tasks; the average is recorded within the trial."""
    found = dict(zip(TASKS, values, strict=False))
    return found if average is None else found | {"avg": average}


def fill(store: Store) -> AddTrial:
    """Write the trials; what adds further ones."""
    add_trial = adding(store)
    # simcse: averages of 71, 73 and 75 within the trials, so 73±2; STS12 is 60, 60 and 90.
    for seed, (first, mean) in enumerate(((60.0, 71.0), (60.0, 73.0), (90.0, 75.0))):
        rest = [(7 * mean - first) / 6] * 6
        add_trial(test=scores(first, *rest, average=mean), seed=seed, dev={"stsb-dev": mean + 5})
    # diffcse: 74±1, so 1 point above simcse; Welch says nothing of it.
    for seed, mean in enumerate((73.0, 74.0, 75.0)):
        add_trial(test=scores(*[mean] * 7, average=mean), seed=seed, method="diffcse")
    # esimcse lacks SICK-R in one of two trials: no SICK-R, no average, never the best.
    add_trial(test=scores(*[99.0] * 7, average=99.0), seed=0, method="esimcse")
    add_trial(test=scores(*[98.0] * 6), seed=1, method="esimcse", status="partial", reason="gap")
    # d2cse is far below, with hardly a spread.
    for seed, mean in enumerate((59.9, 60.0, 60.1)):
        add_trial(test=scores(*[mean] * 7, average=mean), seed=seed, method="d2cse")
    # pooling does not train.
    add_trial(
        {"pooling": "cls"}, 50.0, method="pooling", steps=0, test=scores(*[50.0] * 7, average=50.0)
    )
    # Of another protocol, and better than all.
    add_trial(score=95.0, seed=0, method="consert", protocol=PROTOCOL - 1)
    # Another encoder, alone in its block.
    add_trial(score=97.0, seed=0, encoder="roberta-base")
    # Neither final nor finished.
    add_trial(score=96.0, seed=7, role="search")
    add_trial(seed=8, status="failed", reason="loss is nan", test={}, dev={})
    # Two subsets of the labels with two seeds each.
    for subset, row in enumerate(((70.0, 72.0), (76.0, 80.0))):
        for seed, score in enumerate(row):
            values = {"label_fraction": 0.01, "subset": subset}
            add_trial(values, score, seed=seed, setting="sup")
    # A duplicate: the same record in a file of another name.
    first = sorted(store.folder.glob("0*.parquet"))[0]
    copy(first, store.folder / "compacted-copy.parquet")
    return add_trial


@pytest.fixture(scope="module")
def sheet(tmp_path_factory: pytest.TempPathFactory) -> Table:
    store = Store(tmp_path_factory.mktemp("known") / "store")
    fill(store)
    (found,) = store_tables(store.read(), Path("somewhere"))
    return found


def cell(sheet: Table, method: str, metric: str, encoder: str = "bert-base-uncased") -> Cell:
    (row,) = (row for row in sheet.rows if row.names[:3] == (method, "unsup", encoder))
    return row.cells[list(sheet.metrics).index(metric)]


def test_the_average_is_taken_within_a_trial_before_the_mean(sheet: Table) -> None:
    """The std of the averages is 2; that of the tasks is another number."""
    average = cell(sheet, "simcse", "avg")
    assert average.ours is not None
    assert average.text == "73.00±2.00"
    assert average.ours.values == (71.0, 73.0, 75.0)
    assert cell(sheet, "simcse", "sts12").text == f"70.00±{sqrt(300):.2f}"
    assert cell(sheet, "simcse", "dev").text == "78.00±2.00"


def test_a_duplicate_and_what_is_no_final_trial_are_not_counted(sheet: Table) -> None:
    score = cell(sheet, "simcse", "avg").ours
    assert score is not None
    assert (score.n, len(set(score.keys))) == (3, 3)
    assert [note for note in sheet.notes if "failed" in note] == [
        "1 failed trial: simcse unsup bert-base-uncased seed 8 (loss is nan)"
    ]


def test_a_gap_has_no_average_and_is_never_the_best(sheet: Table) -> None:
    (row,) = (row for row in sheet.rows if row.names[0] == "esimcse")
    assert not row.complete
    texts = dict(zip(sheet.metrics, (each.text for each in row.cells), strict=True))
    assert (texts["sts12"], texts["sickr"], texts["avg"]) == ("98.50±0.71", "", "")
    assert not any(each.best for each in row.cells)


def test_what_is_bold(sheet: Table) -> None:
    """Welch of 73±2 and 74±1, three seeds each: t = 1/sqrt(5/3), p = 0.50; d2cse differs."""
    bold = {
        row.names[:3]: {
            name for name, each in zip(sheet.metrics, row.cells, strict=True) if each.best
        }
        for row in sheet.rows
    }
    tests = {*TASKS, "avg"}
    assert bold.pop(("diffcse", "unsup", "bert-base-uncased")) == tests
    assert bold.pop(("simcse", "unsup", "bert-base-uncased")) == tests
    assert set().union(*bold.values()) == set()


def test_one_trial_has_no_spread_and_a_constant_is_marked(sheet: Table) -> None:
    rows = {row.names[0]: row for row in sheet.rows if row.names[2] == "bert-base-uncased"}
    assert rows["pooling"].n == "–"
    assert cell(sheet, "pooling", "avg").text == "50.00"
    assert cell(sheet, "simcse", "avg", "roberta-base").text == "97.00"


def test_another_protocol_is_marked_and_not_ranked(sheet: Table) -> None:
    foreign = cell(sheet, "consert", "avg")
    assert (foreign.text, foreign.is_foreign, foreign.best) == ("95.00†", True, False)
    assert sheet.notes[0] == (f"† trained or measured by protocol {PROTOCOL - 1}, not compared")


def test_subsets_have_the_std_of_all_runs(sheet: Table) -> None:
    """70, 72, 76 and 80 have the variance 59/3."""
    (row,) = (row for row in sheet.rows if row.names[1] == "sup")
    assert (row.n, row.lines[0][-1]) == ("2x2", f"74.50±{sqrt(59 / 3):.2f}")


def test_a_method_without_labels_is_ranked_with_those_that_use_all(
    store: Store, add_trial: AddTrial
) -> None:
    """Mean pooling has no share of the labels, and SimCSE has all of them."""
    for seed in (0, 1, 2):
        add_trial({"label_fraction": 1}, 70.0 + seed, seed=seed)
    add_trial(method="pooling", score=80.0, steps=0)
    (sheet,) = store_tables(store.read(), store.folder)
    assert {row.names[0] for row in sheet.rows if row.cells[-1].best} == {"pooling"}
