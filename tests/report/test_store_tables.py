"""`harness table` of a store with evaluations: one sheet for each suite."""

import csv
import io
from pathlib import Path

from harness.evaluation.catalogue import SuiteCard
from harness.report.formats import rendered
from harness.report.store_tables import store_tables
from harness.report.tables import Table
from harness.trials.record_files import Reading
from tests.report.conftest import TRANSFER, MadeStore

SUITE, TRANSFER_DEV = "transfer-senteval", "transfer-senteval-dev"
RETRIEVAL = {"recall@10": 90.0, "recall@1": 80.0, "recall@5": 88.0, "recall@3": 85.0}
GEOMETRY = {
    "alignment": 0.0838, "uniformity": -1.45934, "mean-cosine": 0.5, "first-component": 0.061,
}  # fmt: skip


def sheets(store: MadeStore) -> dict[str, Table]:
    """Title -> sheet."""
    return {sheet.title: sheet for sheet in store.sheets()}


def lines(sheet: Table) -> list[list[str]]:
    return [line for section in sheet.sections for line in section.lines]


def test_naming_the_trials_suite_changes_nothing(store: MadeStore) -> None:
    store.trial()
    store.trial(suite="sts")
    by_graded = {"dev": {"graded-dev": 60.0}, "test": {"graded": 55.0}}
    store.trial({"suite": "graded"}, **by_graded)
    store.trial({"suite": "graded"}, **by_graded, suite="graded")
    graded, sts = store.sheets()
    assert [lines(graded)[0][3], lines(sts)[0][3]] == ["2", "2"]
    assert {sheet.caption[:13] for sheet in (graded, sts)} == {"Spearman x100"}


def test_each_suite_has_its_columns_in_the_papers_order_and_says_what_is_measured(
    store: MadeStore,
) -> None:
    key = store.trial()
    store.evaluation(SUITE, dict.fromkeys(TRANSFER, 80.0), of=key)
    store.evaluation("retrieval", RETRIEVAL, of=key)
    store.evaluation("geometry", GEOMETRY, of=key)
    store.evaluation("mine", {"f1": 0.5}, of=key)
    by_title = sheets(store)
    assert {title: " ".join(sheet.columns[4:]) for title, sheet in by_title.items()} == {
        "": "dev before dev STS12 STS13 STS14 STS15 STS16 STS-B SICK-R Avg.",
        f"suite {SUITE}": "dev MR CR SUBJ MPQA SST TREC MRPC Avg.",
        "suite retrieval": "dev R@1 R@3 R@5 R@10",
        "suite geometry": "dev Alignment Uniformity mean cosine first component",
        "suite mine": "dev f1",
    }
    retrieval, geometry = (
        lines(by_title[f"suite {name}"])[0] for name in ("retrieval", "geometry")
    )
    assert retrieval[4:] == ["80.00", "80.00", "85.00", "88.00", "90.00"]
    assert geometry[4:] == ["80.00", "0.0838", "-1.4593", "0.5000", "0.0610"]
    assert by_title.pop("").caption.startswith("Spearman x100")
    for suite, words in {
        SUITE: ["Accuracy x100", "SentEval's own classifier", "10-fold"],
        "retrieval": [
            "percent",
            "distinct sentences of STS-B test",
            "removed",
            "both sentences of the 97 pairs",
        ],
        "geometry": ["not x100", "gold score above 4", "lower is better"],
        "mine": ['suite "mine"', "own units"],
    }.items():
        caption = by_title[f"suite {suite}"].caption
        assert "Spearman" not in caption
        assert "selected on dev (STS-B dev), test never selects" in caption
        assert [word for word in words if word not in caption] == []


def test_each_suite_has_its_own_n(store: MadeStore) -> None:
    keys = [store.trial(score=score) for score in (74.0, 75.0, 76.0)]
    store.evaluation(SUITE, dict.fromkeys(TRANSFER, 80.0), of=keys[2], dev={TRANSFER_DEV: 83.0})
    for key, recall in zip(keys[:2], (80.0, 82.0), strict=True):
        store.evaluation("retrieval", RETRIEVAL | {"recall@1": recall}, of=key)
    by_title = sheets(store)
    assert [lines(sheet)[0][3] for sheet in by_title.values()] == ["3", "1", "2"]
    assert lines(by_title[""])[0][-1] == "75.00±1.00"
    assert by_title[f"suite {SUITE}"].columns[4:6] == ["dev", "transfer dev"]
    assert lines(by_title[f"suite {SUITE}"])[0][4:7] == ["80.00", "83.00", "80.00"]
    assert lines(by_title["suite retrieval"])[0][5] == "81.00±1.41"


def test_a_partial_evaluation_is_shown_and_named(store: MadeStore) -> None:
    partial = {"status": "partial", "reason": "mrpc: no such file", "seed": 0}
    found = dict.fromkeys(TRANSFER[:6], 80.0) | {"transfer-avg": 80.0}
    store.evaluation(SUITE, found, of=store.trial(seed=0), **partial)
    sheet = sheets(store)[f"suite {SUITE}"]
    assert lines(sheet)[0][5:] == [*["80.00"] * 6, "", ""]
    assert list(sheet.notes) == [
        f"1 partial evaluation: simcse unsup bert-base-uncased seed 0, {SUITE} (mrpc: no such file)"
    ]


def test_what_was_made_again_is_not_named(store: MadeStore) -> None:
    keys = [store.trial(seed=seed) for seed in (0, 1)]
    for seed, key in enumerate(keys):
        store.evaluation("retrieval", {}, of=key, seed=seed, status="failed", reason="no data")
    store.evaluation("retrieval", RETRIEVAL, of=keys[0], seed=0)
    assert list(sheets(store)["suite retrieval"].notes) == [
        "1 failed evaluation: simcse unsup bert-base-uncased seed 1, retrieval (no data)"
    ]


def test_a_users_suite_has_any_names(store: MadeStore) -> None:
    card = SuiteCard("mine", {"mine-avg": "Mean"}, unit="Apples", average="mine-avg")
    measured = {"zeta": 0.8123, "count": 1234.5, "mine-avg": 0.5}
    key = store.trial()
    store.evaluation("mine", measured, of=key, suite_card=card.dumped())
    for suite in ("alpha", "geometry"):
        store.evaluation(suite, {"x": 1.0}, of=key)
    assert list(sheets(store)) == ["", "suite geometry", "suite mine", "suite alpha"]
    sheet = sheets(store)["suite mine"]
    assert sheet.columns[4:] == ["dev", "count", "zeta", "Mean"], "an average stands last"
    assert lines(sheet)[0][5:] == ["1234.50", "0.8123", "0.5000"]
    assert sheet.caption.startswith("Apples, mean±sample std")


def test_dev_has_the_digits_of_its_suite_and_nan_takes_none_from_the_others(
    store: MadeStore,
) -> None:
    card = SuiteCard("mine", dev_tasks=("mine-dev",)).dumped()
    own = {"suite": "mine", "suite_card": card, "dev_before": 0.125}
    for method, dev, test in (("clsr", 0.8123, float("nan")), ("simcse", 0.8171, 0.5)):
        key = store.trial(method=method, dev={"mine-dev": dev}, test={"x": test}, **own)
        store.evaluation("retrieval", RETRIEVAL, of=key, method=method)
    tables = sheets(store)
    assert [line[4:] for line in lines(tables[""])] == [
        ["0.1250", "0.8123", "nan"],
        ["0.1250", "0.8171", "0.5000"],
    ]
    assert lines(tables["suite retrieval"])[0][4:6] == ["0.8123", "80.00"]


def test_trials_that_other_dev_scores_selected_stay_apart(store: MadeStore) -> None:
    store.evaluation("retrieval", RETRIEVAL, of=store.trial())
    by_graded = {"suite": "graded"}
    key = store.trial(by_graded, dev={"graded-dev": 60.0}, test={"graded": 55.0}, suite="graded")
    store.evaluation("retrieval", RETRIEVAL, of=key, configuration=by_graded)
    store.evaluation("sts", {"stsb": 70.0}, of=key, configuration=by_graded, dev={"stsb-dev": 66.0})
    tables = store.sheets()
    assert [(sheet.title, "graded-dev" in sheet.caption) for sheet in tables] == [
        ("suite sts", True), ("", True), ("suite retrieval", True), ("", False),
        ("suite retrieval", False),
    ]  # fmt: skip
    assert tables[0].columns[4:6] == ["dev", "STS-B dev"]
    assert lines(tables[0])[0][4:6] == ["60.00", "66.00"]


def test_records_have_the_uncertainty_of_one_model(store: MadeStore) -> None:
    keys = [store.trial(), store.trial()]
    interval = {"standard_error": 0.5, "low": 79.0, "high": 81.0}
    spread = {"uncertainty": {"mr": interval, "recall@1": interval, TRANSFER_DEV: interval}}
    dev = {TRANSFER_DEV: 80.0}
    store.evaluation(SUITE, {"mr": 80.0, "cr": 70.0}, of=keys[0], dev=dev, **spread)
    for key in keys:
        store.evaluation("retrieval", {"recall@1": 80.0}, of=key, **spread)
    tables = [*sheets(store).values()]
    rows = [row for sheet in tables for row in sheet.records.to_pylist()]
    measured = [row for row in rows if row["standard_error"] is not None]
    assert sorted((row["suite"], row["split"], row["metric"], row["n"]) for row in measured) == [
        (SUITE, "dev", TRANSFER_DEV, 1),
        (SUITE, "test", "mr", 1),
    ]
    assert {(row["standard_error"], row["low"], row["high"]) for row in measured} == {
        (0.5, 79.0, 81.0)
    }
    assert {row["n"] for row in rows if row["metric"] == "recall@1"} == {2}
    assert [row["split"] for row in rows if row["metric"] == "stsb-dev"] == ["dev_before", "dev"]
    printed = csv.DictReader(io.StringIO(rendered(tables, "csv", 140).decode()))
    [mr] = [row for row in printed if row["metric"] == "mr"]
    assert (mr["standard_error"], mr["low"], mr["high"]) == ("0.5", "79.0", "81.0")
    assert mr["keys"] == keys[0][:12]


# `harness table`: the tables of a store.


def printed(reading: Reading, width: int = 140) -> str:
    return rendered(store_tables(reading, Path("somewhere")), "terminal", width).decode()


def test_only_what_differs_is_shown(store: MadeStore) -> None:
    store.trial({"learning_rate": 1e-5})
    store.trial({"learning_rate": 3e-5})
    store.trial({"learning_rate": 3e-5}, source_digest="source-2-of-the-plugin")
    store.trial(method="d2cse")
    store.trial(method="mixcse", searched="learning_rate")  # of one value
    (sheet,) = store.sheets()
    assert [(line[0], line[3]) for line in sheet.sections[0].lines] == [
        ("d2cse", ""),
        ("mixcse", "learning_rate=3e-05"),
        ("simcse", "learning_rate=1e-05, source_digest=source-1"),
        ("simcse", "learning_rate=3e-05, source_digest=source-1"),
        ("simcse", "learning_rate=3e-05, source_digest=source-2"),
    ]


def test_failures_and_damaged_files_are_named_and_the_rest_is_read(store: MadeStore) -> None:
    store.trial()
    for seed in range(8):
        store.trial(status="failed", seed=seed, reason="loss is\nnan", dev={}, test={})
    (store.folder / "damaged.parquet").write_bytes(b"PAR1 and nothing more")
    text = " ".join(printed(store.read()).split())
    assert "8 failed trials: simcse unsup bert-base-uncased seed 0 (loss is nan); " in text
    assert "seed 4 (loss is nan); and 3 more " in text
    assert "1 file of the store could not be read: damaged.parquet (" in text
    assert "75.00" in text


def test_an_empty_store_says_what_to_run(store: MadeStore) -> None:
    assert printed(store.read()) == (
        "nothing to show in somewhere yet; run: harness sweep quickstart --store somewhere\n"
    )
    store.trial(role="search", test={})
    assert "(of 1 trial none is final and finished)" in printed(store.read())


def test_a_users_file_stands_in_a_table_by_its_name(store: MadeStore) -> None:
    """The digest of the data is left out; where two files share a name, all is shown."""
    for folder, name, data in (("a", "news", "1"), ("a", "web", "2")):
        store.trial({"sentences": f"/{folder}/{name}.txt"}, data_digest=data)
    (table,) = store.sheets()
    assert [row.names[-1] for row in table.rows] == ["sentences=news.txt", "sentences=web.txt"]
    store.trial({"sentences": "/b/news.txt"}, data_digest="3")
    (table,) = store.sheets()
    assert sorted(row.names[-1] for row in table.rows) == [
        "data_digest=1, sentences=/a/news.txt",
        "data_digest=3, sentences=/b/news.txt",
        "sentences=web.txt",
    ]
