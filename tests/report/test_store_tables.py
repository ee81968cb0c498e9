"""`harness table`: the tables of a store."""

from collections.abc import Callable
from pathlib import Path

from harness.report.formats import rendered
from harness.report.store_tables import store_tables
from harness.trials.record_files import Reading
from harness.trials.store import Store

AddTrial = Callable[..., str]


def printed(reading: Reading, width: int = 140) -> str:
    return rendered(store_tables(reading, Path("somewhere")), "terminal", width).decode()


def test_one_trial_has_no_spread(store: Store, add_trial: AddTrial) -> None:
    add_trial()
    row = next(line for line in printed(store.read()).splitlines() if " simcse " in line)
    assert row.split() == [
        "1",
        "simcse",
        "unsup",
        "bert-base-uncased",
        "1",
        "50.00",
        "80.00",
        *["75.00"] * 8,
    ]


def test_seeds_are_aggregated(store: Store, add_trial: AddTrial) -> None:
    for score in (74.0, 75.0, 76.0):
        add_trial(score=score)
    (sheet,) = store_tables(store.read(), store.folder)
    assert sheet.sections[0].lines == [
        [
            "simcse",
            "unsup",
            "bert-base-uncased",
            "3",
            "50.00±0.00",
            "80.00±0.00",
            *["75.00±1.00"] * 8,
        ]
    ]


def test_only_what_differs_is_shown(store: Store, add_trial: AddTrial) -> None:
    add_trial({"learning_rate": 1e-5})
    add_trial({"learning_rate": 3e-5})
    add_trial({"learning_rate": 3e-5}, source_digest="source-2-of-the-plugin")
    add_trial(method="d2cse")
    (sheet,) = store_tables(store.read(), store.folder)
    assert [(line[0], line[3]) for line in sheet.sections[0].lines] == [
        ("d2cse", ""),
        ("simcse", "learning_rate=1e-05, source_digest=source-1"),
        ("simcse", "learning_rate=3e-05, source_digest=source-1"),
        ("simcse", "learning_rate=3e-05, source_digest=source-2"),
    ]


def test_one_table_a_suite(store: Store, add_trial: AddTrial) -> None:
    add_trial()
    add_trial(
        {"suite": "graded"},
        selected_by="graded-dev",
        dev={"graded-dev": 60.0},
        dev_before=40.0,
        test={"graded": 55.0},
    )
    graded, sts_sheet = store_tables(store.read(), store.folder)
    assert list(graded.columns[4:]) == ["dev before", "dev", "graded"]
    assert sts_sheet.columns[-1] == "Avg."
    assert graded.sections[0].lines[0][4:] == ["40.00", "60.00", "55.00"]


def test_an_incomplete_row_has_no_average(store: Store, add_trial: AddTrial) -> None:
    add_trial(test={"sts12": 70.0, "avg": 70.0})
    (sheet,) = store_tables(store.read(), store.folder)
    assert sheet.sections[0].lines[0][6:] == ["70.00", *[""] * 7]


def test_failures_and_damaged_files_are_named_and_the_rest_is_read(
    store: Store, add_trial: AddTrial
) -> None:
    add_trial()
    add_trial(status="failed", seed=1, reason="loss is\nnan", dev={}, test={})
    (store.folder / "damaged.parquet").write_bytes(b"PAR1 and nothing more")
    text = printed(store.read())
    assert "1 failed trial: simcse unsup bert-base-uncased seed 1 (loss is nan)" in text
    assert "1 file of the store could not be read: damaged.parquet (" in text
    assert "75.00" in text


def test_many_failures_are_counted_and_the_first_named(store: Store, add_trial: AddTrial) -> None:
    add_trial()
    for seed in range(8):
        add_trial(status="failed", seed=seed, reason="loss is nan", dev={}, test={})
    text = printed(store.read())
    assert "8 failed trials: " in text
    assert "seed 4 (loss is nan); and 3 more " in f"{' '.join(text.split())} "


def test_an_empty_store_says_what_to_run(store: Store, add_trial: AddTrial) -> None:
    assert printed(store.read()) == (
        "nothing to show in somewhere yet; run: harness sweep quickstart --store somewhere\n"
    )
    add_trial(role="search", test={})
    assert "(of 1 trial none is final and finished)" in printed(store.read())


def test_a_users_file_stands_in_a_table_by_its_name(store: Store, add_trial: AddTrial) -> None:
    """The digest of the data is left out; where two files share a name, all is shown."""
    for folder, name, data in (("a", "news", "1"), ("a", "web", "2")):
        add_trial({"sentences": f"/{folder}/{name}.txt"}, data_digest=data)
    (table,) = store_tables(store.read(), store.folder)
    assert [row.names[-1] for row in table.rows] == ["sentences=news.txt", "sentences=web.txt"]
    add_trial({"sentences": "/b/news.txt"}, data_digest="3")
    (table,) = store_tables(store.read(), store.folder)
    assert sorted(row.names[-1] for row in table.rows) == [
        "data_digest=1, sentences=/a/news.txt",
        "data_digest=3, sentences=/b/news.txt",
        "sentences=web.txt",
    ]


def test_the_value_of_a_search_of_one_value_is_shown(store: Store, add_trial: AddTrial) -> None:
    add_trial(searched="learning_rate")
    (sheet,) = store_tables(store.read(), store.folder)
    assert sheet.sections[0].lines[0][3] == "learning_rate=3e-05"
    assert list(sheet.columns)[3] == "configuration"
