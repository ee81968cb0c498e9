"""The trials of a sweep as its figures need them, by search."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from harness.evaluation.catalogue import DISPLAY, card, suite_of
from harness.report.figures.report_figure import file_name
from harness.report.figures.style import number_text
from harness.trials.record import FAMILY_COLUMNS, Record, record_of, searched_names

FIGURE_COLUMNS = (
    "key", "status", "role", "search", "suite", "suite_card", "method", "setting", "encoder",
    "seed", "label_fraction", "subset", "configuration", "selected_by", "dev_before", "dev", "test",
    "history", "training_seconds", "device",
)  # fmt: skip
"""The columns of the store that the figures of a sweep need"""


@dataclass(frozen=True)
class SweepTrial:
    """A trial of a search: its record, and the values in which it differs from the others."""

    record: Record
    values: Mapping[str, Any]
    """Searched hyperparameter -> its value"""

    @property
    def label(self) -> str:
        """What tells it apart from the other trials of its search."""
        words = [f"{name}={number_text(value)}" for name, value in self.values.items()]
        share = self.record.label_fraction
        drawn = [f"subset {self.record.subset}"] if share is not None and share < 1 else []
        return " ".join([*words, f"seed {self.record.seed}", *drawn])

    @property
    def dev(self) -> float | None:
        """The score that selects."""
        return self.record.dev_score

    @property
    def test(self) -> tuple[str, float] | None:
        """The metric that stands for all tests, and its score; None without a test score.

        It is the average of the suite, or the first test.
        """
        record = self.record
        if not record.test:
            return None
        known = card(record.suite or suite_of(record.test), record.suite_card)
        names = [known.average, "avg", *known.tasks(record.test)]
        name = next((name for name in names if name in record.test), None)
        return None if name is None else (DISPLAY.get(name, name), record.test[name])


@dataclass(frozen=True)
class SweepSearch:
    """The trials of one search."""

    id: str
    """As the column `search` has it"""
    label: str
    """Method, setting and encoder, and the first characters of `id` where another has the same"""
    names: tuple[str, ...]
    """The hyperparameters in which its search trials differ, sorted"""
    trials: tuple[SweepTrial, ...]
    """Sorted by dev score, the best first; those without a score come last"""

    @property
    def file_name(self) -> str:
        """The label as a part of a file's name."""
        return file_name(self.label)

    @cached_property
    def metric(self) -> str:
        """The dev metric that selects, as papers print it."""
        metric = next((t.record.selected_by for t in self.trials if t.record.selected_by), "dev")
        return DISPLAY.get(metric, metric)

    @property
    def searched(self) -> list[SweepTrial]:
        """Its search trials, or the final ones where nothing was searched."""
        found = [each for each in self.trials if each.record.role == "search"]
        return found or list(self.trials)


def sweep_searches(table: pa.Table, ids: Collection[str] | None = None) -> list[SweepSearch]:
    """The searches of a store in the order of their labels. `ids`: only these; None: all.

    `table` has FIGURE_COLUMNS. Evaluations and failed trials are left out.
    """
    trials = [
        record
        for record in map(record_of, table.to_pylist())
        if record.search
        and record.role != "evaluation"
        and record.status != "failed"
        and (ids is None or record.search in ids)
    ]
    named = searched_names(table.select([*FAMILY_COLUMNS, "configuration"]))
    found: dict[tuple[Any, ...], list[Record]] = {}
    for record in trials:
        family = (record.method, record.setting, record.encoder, record.search)
        found.setdefault(family, []).append(record)
    labels = [" ".join([*family[:2], Path(family[2]).name]) for family in found]
    searches = [
        _search(family[3], label, labels.count(label) > 1, named.get(family, []), records)
        for (family, records), label in zip(found.items(), labels, strict=True)
    ]
    return sorted(searches, key=lambda search: search.label)


def _search(
    identifier: str, label: str, shared: bool, names: Iterable[str], records: Iterable[Record]
) -> SweepSearch:
    names = tuple(sorted(names))
    made = [
        SweepTrial(
            each, {name: each.configuration[name] for name in names if name in each.configuration}
        )
        for each in records
    ]
    made.sort(key=lambda trial: (-(trial.dev if trial.dev is not None else -1e9), trial.record.key))
    return SweepSearch(
        identifier, f"{label} {identifier[:6]}" if shared else label, names, tuple(made)
    )
