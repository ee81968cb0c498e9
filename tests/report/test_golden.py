"""Every format of `harness table` over a store of known means, byte by byte.

`python -m tests.report.test_golden` writes the files of `golden/` anew; look at what has changed.
"""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.report.formats import rendered
from harness.report.matching import Commands
from harness.report.paper_tables import paper_tables
from harness.report.store_tables import store_tables
from harness.report.tables import Table
from harness.trials.store import Store
from tests.report.conftest import METHODS, TASKS, record, typed

Tables = dict[str, list[Table]]
GOLDEN = Path(__file__).parent / "golden"
PLACE = "results/of-mine"
"""The name of the store in commands"""
FILES = {
    "store.txt": ("store", "terminal"),
    "store-narrow.txt": ("store", "terminal"),
    "store-bold.txt": ("store", "terminal"),
    "store.md": ("store", "markdown"),
    "store.tex": ("store", "latex"),
    "store.csv": ("store", "csv"),
    "few.json": ("few", "json"),
    "paper.txt": ("paper", "terminal"),
    "paper.md": ("paper", "markdown"),
    "paper.tex": ("paper", "latex"),
}
"""File -> what is printed, and its format"""


def known_store(folder: Path) -> Store:
    """Three methods with seeds, one that trains nothing, label subsets, and what is left out."""
    store = Store(folder)
    numbers = iter(range(100))

    def add(score: float, configuration: dict[str, Any] | None = None, **more: Any) -> None:
        made = record(next(numbers), configuration)
        store.write(typed(made | {"test": dict.fromkeys(TASKS, score), "protocol": None} | more))

    for seed, score in enumerate((75.0, 76.0, 77.0)):
        add(score, seed=seed)
        add(score + 0.5, {"prompt_length": 16}, seed=seed, method="dcpcse")
        add(score - 9.0, seed=seed, method="diffcse", dev={"stsb-dev": 70.0 + seed})
    add(54.81, {"pooling": "mean"}, method="pooling", steps=0)
    for subset, scores in enumerate(((70.0, 72.0), (76.0, 80.0))):
        for seed, score in enumerate(scores):
            labels = {"label_fraction": 0.01, "subset": subset}
            add(score, labels, seed=seed, setting="sup")
    add(99.0, role="search")
    add(99.0, status="failed", reason="loss is nan", dev={}, test={})
    return store


def evaluate_a_checkpoint(store: Store) -> None:
    """Write the record of `harness eval` of a released checkpoint."""
    made = record(100, {"pooling": "cls"}) | {
        "role": "evaluation",
        "method": "pooling",
        "encoder": "princeton-nlp/unsup-simcse-bert-base-uncased",
        "suite": "sts",
        "evaluates": "a" * 32,
        "steps": None,
        "test": dict.fromkeys(TASKS, 76.25),
    }
    store.write(typed(made))


def all_tables(store: Store) -> Tables:
    reading = store.read()
    [known] = store_tables(reading, PLACE)
    few = replace(known, make_records=lambda: known.records.slice(0, 2))
    tables = {"store": [known], "few": [few]}
    evaluate_a_checkpoint(store)
    commands = Commands(METHODS, Path(PLACE))
    return tables | {"paper": paper_tables(store.read(), "diffaug", commands, "1")}


def printed(name: str, tables: Tables) -> bytes:
    what, kind = FILES[name]
    width = 80 if "narrow" in name else 180
    return rendered(tables[what], kind, width, bold="bold" in name)


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    return all_tables(known_store(tmp_path_factory.mktemp("known") / "store"))


@pytest.mark.parametrize("name", FILES)
def test_a_table_is_printed_as_in_its_golden_file(name: str, known: Tables) -> None:
    assert printed(name, known).decode() == (GOLDEN / name).read_text(encoding="utf-8")


def test_every_golden_file_is_of_a_table() -> None:
    assert {path.name for path in GOLDEN.iterdir()} == {*FILES}


def main() -> None:
    """Write all files anew."""
    GOLDEN.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        tables = all_tables(known_store(Path(folder) / "store"))
        for name in FILES:
            (GOLDEN / name).write_bytes(printed(name, tables))


if __name__ == "__main__":
    main()
