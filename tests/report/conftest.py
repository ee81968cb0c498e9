"""A temporary store that tests fill with made-up trials."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness import PROTOCOL
from harness.evaluation.scores import Uncertainty
from harness.report.matching import Commands
from harness.report.paper_cells import Comparer, PaperTable
from harness.report.paper_tables import paper_tables
from harness.report.papers import load_paper
from harness.report.tables import Line, Table
from harness.targets.published import lacking_suites, printed_suites
from harness.trials.record import Record
from harness.trials.store import Store

TASKS = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr", "avg")
METHODS = ("d2cse", "dcpcse", "diffcse", "pooling", "simcse")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def record(number: int, configuration: dict[str, Any] | None = None) -> dict[str, Any]:
    """The record of a finished final trial of unsupervised SimCSE on BERT base."""
    return {
        "key": f"{number:032x}",
        "status": "finished",
        "role": "final",
        "method": "simcse",
        "setting": "unsup",
        "encoder": "bert-base-uncased",
        "seed": number,
        "configuration": {"learning_rate": 3e-5, "batch_size": 64} | (configuration or {}),
        "dev_before": 50.0,
        "dev": {"stsb-dev": 80.0},
        "steps": 100,
        "versions": {},
        "source_digest": "source-1",
        "data_digest": "data-1",
        "model_digest": "model-1",
        "protocol": PROTOCOL,
    }


def typed(values: dict[str, Any]) -> Record:
    """The record with these values; STS-B dev selects where it was measured."""
    dev = sorted(values["dev"])
    chosen = "stsb-dev" if "stsb-dev" in dev else next(iter(dev), None)
    spread = {name: Uncertainty(**found) for name, found in values.get("uncertainty", {}).items()}
    return Record(**{"selected_by": chosen, **values, "uncertainty": spread})


@pytest.fixture
def add_trial(store: Store) -> Callable[..., str]:
    """add_trial(...): write a finished final trial and return its key."""
    return adding(store)


def adding(store: Store) -> Callable[..., str]:
    """A function that writes a finished final trial and returns its key.

    It is one of unsupervised SimCSE on BERT base, unless the arguments change it. `score`: Spearman
    x100 on each of the seven tests.
    """
    numbers = itertools.count()

    def add(
        configuration: dict[str, Any] | None = None, score: float = 75.0, **different: Any
    ) -> str:
        made = (
            record(next(numbers), configuration) | {"test": dict.fromkeys(TASKS, score)} | different
        )
        store.write(typed(made))
        return str(made["key"])

    return add


@pytest.fixture
def add_evaluation(store: Store) -> Callable[..., str]:
    """add_evaluation(...): write the scores of a suite and return the key of the evaluation.

    `of`: the key of a trial, which may be in no store. `different`: the fields in which that trial
    differs from one of `add_trial`.
    """
    numbers = itertools.count()

    def add(
        suite: str,
        test: dict[str, float],
        of: str,
        configuration: dict[str, Any] | None = None,
        **different: Any,
    ) -> str:
        key = f"e{next(numbers):031x}"
        evaluation = {
            "key": key,
            "role": "evaluation",
            "suite": suite,
            "evaluates": of,
            "dev": {},
            "dev_before": None,
            "test": test,
        }
        store.write(typed(record(int(of, 16), configuration) | evaluation | different))
        return key

    return add


def lines_of(sheet: Table, label: str, section: int | None = None) -> list[Line]:
    """The lines of the first row with this label, or that begins so: published, ours, Δ."""
    sections = sheet.sections if section is None else [sheet.sections[section]]
    lines = [line for each in sections for line in each.lines]
    names = (f"{label} [", label)
    start = next(at for name in names for at, line in enumerate(lines) if line[0].startswith(name))
    end = next((at for at in range(start + 1, len(lines)) if lines[at][0]), len(lines))
    return lines[start:end]


@dataclass(frozen=True)
class PaperTable:
    """A published table with our numbers."""

    sheet: Table
    compared: PaperTable

    def row(self, label: str, section: int = 0) -> list[Line]:
        """The lines of the row with this label: published, ours, Δ."""
        return lines_of(self.sheet, label, section)

    @property
    def evaluations(self) -> list[str]:
        """The models and suites that `harness sweep --paper P --table N` measures."""
        return [
            " ".join(filter(None, [name[:24], pooling, *printed_suites(suites)]))
            for (name, pooling, _), suites in lacking_suites([self.compared]).items()
        ]


@pytest.fixture
def paper_table(store: Store) -> Callable[..., PaperTable]:
    """paper_table(paper, number, folder=...): a table of a paper.

    `folder`: the name that the commands use for the store.
    """

    def table(paper: str, number: int, folder: Path | None = None) -> PaperTable:
        reading = store.read()
        commands = Commands(METHODS, folder or store.folder)
        (sheet,) = paper_tables(reading, paper, commands, str(number))
        compared = Comparer(reading.table).table(load_paper(paper), f"table{number}")
        return PaperTable(sheet, compared)

    return table
