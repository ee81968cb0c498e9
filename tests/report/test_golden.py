"""Every format of `harness table` over a store of known means, byte by byte.

`python -m tests.report.test_golden` writes the files of `golden/` anew; look at what has changed.
"""

import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from harness.report.formats import rendered
from harness.report.store_tables import store_tables
from harness.report.tables import Table
from tests.report.conftest import TASKS, MadeStore

Tables = dict[str, list[Table]]
GOLDEN = Path(__file__).parent / "golden"
PLACE = "results/of-mine"
"""The name of the store in commands"""
FILES = {
    "store.txt": ("store", "terminal"), "store-narrow.txt": ("store", "terminal"),
    "store-bold.txt": ("store", "terminal"), "store.md": ("store", "markdown"),
    "store.tex": ("store", "latex"), "store.csv": ("store", "csv"), "few.json": ("few", "json"),
    "paper.txt": ("paper", "terminal"), "paper.md": ("paper", "markdown"),
    "paper.tex": ("paper", "latex"),
}  # fmt: skip
"""File -> what is printed, and its format"""


def known_store(folder: Path) -> MadeStore:
    """Three methods with seeds, one that trains nothing, label subsets, and what is left out."""
    store = MadeStore(folder)
    add = partial(store.trial, protocol=None)
    for seed, score in enumerate((75.0, 76.0, 77.0)):
        add(score=score, seed=seed)
        add({"prompt_length": 16}, score + 0.5, seed=seed, method="dcpcse")
        add(score=score - 9.0, seed=seed, method="diffcse", dev={"stsb-dev": 70.0 + seed})
    add({"pooling": "mean"}, 54.81, method="pooling", steps=0)
    for subset, scores in enumerate(((70.0, 72.0), (76.0, 80.0))):
        for seed, score in enumerate(scores):
            add({"label_fraction": 0.01, "subset": subset}, score, seed=seed, setting="sup")
    add(score=99.0, role="search")
    add(score=99.0, status="failed", reason="loss is nan", dev={}, test={})
    return store


def evaluate_a_checkpoint(store: MadeStore) -> None:
    """Write the record of `harness eval` of a released checkpoint."""
    store.evaluation(
        "sts", dict.fromkeys(TASKS, 76.25), "a" * 32, {"pooling": "cls"}, method="pooling",
        encoder="princeton-nlp/unsup-simcse-bert-base-uncased", steps=None, seed=100,
    )  # fmt: skip


def all_tables(store: MadeStore) -> Tables:
    [table] = store_tables(store.read(), PLACE)
    few = replace(table, make_records=lambda: table.records.slice(0, 2))
    evaluate_a_checkpoint(store)
    return {
        "store": [table],
        "few": [few],
        "paper": [store.paper("diffaug", 1, folder=Path(PLACE))],
    }


def printed(name: str, tables: Tables) -> bytes:
    what, kind = FILES[name]
    width = 80 if "narrow" in name else 180
    return rendered(tables[what], kind, width, bold="bold" in name)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    return all_tables(known_store(tmp_path_factory.mktemp("known") / "store"))


@pytest.mark.parametrize("name", FILES)
def test_a_table_is_printed_as_in_its_golden_file(name: str, tables: Tables) -> None:
    assert printed(name, tables).decode() == (GOLDEN / name).read_text(encoding="utf-8")


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
