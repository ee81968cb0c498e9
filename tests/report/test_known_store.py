"""A store whose numbers are known: every cell of its tables is computed by hand.

Three methods with seeds, one of them with a gap; a model that does not train; label subsets; a
failed trial, a search trial, a duplicate in two files, another protocol, and another encoder.
"""

from math import sqrt
from shutil import copy

import pytest

from harness import PROTOCOL
from harness.report.tables import Table
from tests.report.conftest import TASKS, MadeStore


def scores(*values: float, average: float | None = None) -> dict[str, float]:
    """The scores of the tasks; the average is recorded within the trial."""
    found = dict(zip(TASKS, values, strict=False))
    return found if average is None else found | {"avg": average}


def fill(store: MadeStore) -> None:
    """Write the trials."""
    # simcse: averages of 71, 73 and 75 within the trials, so 73±2; STS12 is 60, 60 and 90.
    for seed, (first, mean) in enumerate(((60.0, 71.0), (60.0, 73.0), (90.0, 75.0))):
        rest = [(7 * mean - first) / 6] * 6
        store.trial(test=scores(first, *rest, average=mean), seed=seed, dev={"stsb-dev": mean + 5})
    for seed in range(3):
        # diffcse: 74±1, so 1 point above simcse; Welch says nothing of it.
        store.trial(score=73.0 + seed, seed=seed, method="diffcse")
        # d2cse is far below, with hardly a spread.
        store.trial(score=59.9 + seed / 10, seed=seed, method="d2cse")
    # esimcse lacks SICK-R in one of two trials: no SICK-R, no average, never the best.
    store.trial(score=99.0, seed=0, method="esimcse")
    gap = {"status": "partial", "reason": "gap"}
    store.trial(test=scores(*[98.0] * 6), seed=1, method="esimcse", **gap)
    # pooling does not train.
    store.trial({"pooling": "cls"}, 50.0, method="pooling", steps=0)
    # Of another protocol, and better than all.
    store.trial(score=95.0, seed=0, method="consert", protocol=PROTOCOL - 1)
    # Another encoder, alone in its block.
    store.trial(score=97.0, seed=0, encoder="roberta-base")
    # Neither final nor finished.
    store.trial(score=96.0, seed=7, role="search")
    store.trial(seed=8, status="failed", reason="loss is nan", test={}, dev={})
    # Two subsets of the labels with two seeds each.
    for subset, row in enumerate(((70.0, 72.0), (76.0, 80.0))):
        for seed, score in enumerate(row):
            values = {"label_fraction": 0.01, "subset": subset}
            store.trial(values, score, seed=seed, setting="sup")
    # A duplicate: the same record in a file of another name.
    first = sorted(store.folder.glob("0*.parquet"))[0]
    copy(first, store.folder / "compacted-copy.parquet")


@pytest.fixture(scope="module")
def sheet(tmp_path_factory: pytest.TempPathFactory) -> Table:
    store = MadeStore(tmp_path_factory.mktemp("known") / "store")
    fill(store)
    (found,) = store.sheets()
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
        "3", "78.00±2.00", f"70.00±{sqrt(300):.2f}", "73.50±1.45", "73.00±2.00",
    ],
    ("simcse", "unsup", ROBERTA): ["1", "80.00", "97.00", "97.00", "97.00"],
}  # fmt: skip
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
    assert (score.values, len(set(score.keys))) == ((71.0, 73.0, 75.0), 3)


def test_what_is_bold(sheet: Table) -> None:
    """Welch of 73±2 and 74±1, three seeds each: t = 1/sqrt(5/3), p = 0.50; d2cse differs."""
    bold = {
        row.names[:3]: {
            name for name, each in zip(sheet.metrics, row.cells, strict=True) if each.best
        }
        for row in sheet.rows
    }
    for method in ("diffcse", "simcse"):
        assert bold.pop((method, "unsup", BERT)) == {*TASKS}
    assert not set().union(*bold.values())


def test_a_method_without_labels_is_ranked_with_those_that_use_all(store: MadeStore) -> None:
    """Mean pooling has no share of the labels, and SimCSE has all of them."""
    for seed in (0, 1, 2):
        store.trial({"label_fraction": 1}, 70.0 + seed, seed=seed)
    store.trial(method="pooling", score=80.0, steps=0)
    (sheet,) = store.sheets()
    assert {row.names[0] for row in sheet.rows if row.cells[-1].best} == {"pooling"}
