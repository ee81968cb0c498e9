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


BERT, ROBERTA = "bert-base-uncased", "roberta-base"
SHOWN = {
    ("consert", "unsup", BERT): ["1", "80.00†", "95.00†", "95.00†", "95.00†"],
    ("d2cse", "unsup", BERT): ["3", "80.00±0.00", "60.00±0.10", "60.00±0.10", "60.00±0.10"],
    ("diffcse", "unsup", BERT): ["3", "80.00±0.00", "74.00±1.00", "74.00±1.00", "74.00±1.00"],
    ("esimcse", "unsup", BERT): ["2", "80.00±0.00", "98.50±0.71", "", ""],
    ("pooling", "unsup", BERT): ["–", "80.00", "50.00", "50.00", "50.00"],
    # 70, 72, 76 and 80 have the variance 59/3.
    ("simcse", "sup", BERT): ["2x2", "80.00±0.00", *[f"74.50±{sqrt(59 / 3):.2f}"] * 3],
    # The std of the averages is 2; that of a task is another number.
    ("simcse", "unsup", BERT): [
        "3",
        "78.00±2.00",
        f"70.00±{sqrt(300):.2f}",
        "73.50±1.45",
        "73.00±2.00",
    ],
    ("simcse", "unsup", ROBERTA): ["1", "80.00", "97.00", "97.00", "97.00"],
}
"""Row -> n, dev, STS12, SICK-R and the average"""


def test_every_row_is_as_computed_by_hand(sheet: Table) -> None:
    columns = [list(sheet.columns).index(name) for name in ("n", "dev", "STS12", "SICK-R", "Avg.")]
    found = {row.names[:3]: [row.lines[0][at] for at in columns] for row in sheet.rows}
    assert found == SHOWN
    assert list(sheet.notes) == [
        f"† trained or measured by protocol {PROTOCOL - 1}, not compared",
        "1 failed trial: simcse unsup bert-base-uncased seed 8 (loss is nan)",
        "1 partial trial: esimcse unsup bert-base-uncased seed 1 (gap)",
        "1 file of the store could not be read: compacted-copy.parquet (its key is not the name of "
        "the file)",
    ]
    (gap,) = (row for row in sheet.rows if row.names[0] == "esimcse")
    assert not gap.complete


def test_the_average_is_taken_within_a_trial_and_a_duplicate_counts_once(sheet: Table) -> None:
    (row,) = (row for row in sheet.rows if row.names[:3] == ("simcse", "unsup", BERT))
    score = row.cells[-1].ours
    assert score is not None
    assert (score.values, len(set(score.keys))) == ((71.0, 73.0, 75.0), 3)


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


def test_a_method_without_labels_is_ranked_with_those_that_use_all(
    store: Store, add_trial: AddTrial
) -> None:
    """Mean pooling has no share of the labels, and SimCSE has all of them."""
    for seed in (0, 1, 2):
        add_trial({"label_fraction": 1}, 70.0 + seed, seed=seed)
    add_trial(method="pooling", score=80.0, steps=0)
    (sheet,) = store_tables(store.read(), store.folder)
    assert {row.names[0] for row in sheet.rows if row.cells[-1].best} == {"pooling"}
