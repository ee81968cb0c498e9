"""A throw-away store, filled with made-up trials."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.evaluation.scores import Uncertainty
from harness.report.commands import Commands
from harness.report.paper_tables import paper_sheets
from harness.report.sheet import Sheet, SheetLine
from harness.trials.record import Record
from harness.trials.store import Store

TASKS = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr", "avg")
METHODS = ("d2cse", "dcpcse", "diffcse", "pooling", "simcse")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def record(number: int, configuration: dict[str, Any] | None = None) -> dict[str, Any]:
    """A finished final trial of unsupervised SimCSE on BERT base."""
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
        "protocol": 1,
    }


def typed(values: dict[str, Any]) -> Record:
    """The record with these values; STS-B dev selects where it was measured."""
    dev = sorted(values["dev"])
    chosen = "stsb-dev" if "stsb-dev" in dev else next(iter(dev), None)
    spread = {name: Uncertainty(**found) for name, found in values.get("uncertainty", {}).items()}
    return Record(**{"selected_by": chosen, **values, "uncertainty": spread})


@pytest.fixture
def add_trial(store: Store) -> Callable[..., str]:
    """Writes a finished final trial of unsupervised SimCSE on BERT base, or what is said; returns its key.

    `score`: Spearman x100 on each of the seven tests.
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
    """Writes what a suite measured of the trial `of` (a key that `add_trial` returned, or one that is in no store);
    returns the evaluation's key. `different`: whatever that trial does not have from `add_trial`."""
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


@dataclass(frozen=True)
class PaperTable:
    """A published table with ours beside it."""

    sheet: Sheet

    def row(self, label: str, section: int = 0) -> list[SheetLine]:
        """The lines of the row with this label: published, ours, Δ."""
        lines = self.sheet.sections[section].lines
        start = next(index for index, line in enumerate(lines) if line[0].startswith(f"{label} ["))
        end = next((index for index in range(start + 1, len(lines)) if lines[index][0]), len(lines))
        return list(lines[start:end])

    @property
    def evaluations(self) -> list[str]:
        """The commands that measure what is there."""
        return [note.strip() for note in self.sheet.notes if note.startswith("  harness eval")]


@pytest.fixture
def paper_table(store: Store) -> Callable[..., PaperTable]:
    """paper_table(paper, number, folder=...): a table of a paper; `folder`: what the commands call the store."""

    def table(paper: str, number: int, folder: Path | None = None) -> PaperTable:
        sheets = paper_sheets(store.read(), paper, Commands(METHODS, folder or store.folder))
        (sheet,) = (sheet for sheet in sheets if f". Table {number}: " in sheet.title)
        return PaperTable(sheet)

    return table
