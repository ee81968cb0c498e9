"""The records of a store as the page numbers them, and the files with all about each of them."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from harness.evaluation.catalogue import DISPLAY
from harness.report.groups import comparable_groups
from harness.report.measured_trials import rows_of
from harness.report.row_names import text_of
from harness.trials.record import WITHOUT_LARGE, Record, record_of

STORED_COLUMNS = WITHOUT_LARGE
"""The columns of the store that a record of a report has"""
REPORT_COLUMNS = (*STORED_COLUMNS, "uncertainty")
"""The columns of the store that a report needs"""
IN_A_FILE = 200
"""Trials in one file of details, which is read when one of them is shown"""
_FACTS = (
    "key", "status", "role", "suite", "evaluates", "search", "selected_by", "dev_before", "steps",
    "wall_seconds", "training_seconds", "evaluation_seconds", "sentences_per_second",
    "peak_host_memory_mib", "peak_gpu_memory_mib", "parameters_total", "parameters_trainable",
    "parameters_added", "precision", "engine", "threads", "host", "device", "started", "commit",
    "protocol", "versions", "source_digest", "data_digest", "model_digest", "weights_digest",
    "revisions",
)  # fmt: skip


@dataclass(frozen=True)
class StoredTrials:
    """The records of a store, sorted by key; a record's place is its number in the page."""

    records: Sequence[Record]
    command: Callable[[Record], str]
    """The command that makes a record again"""

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """Key -> number; a trial that the store has only an evaluation of has that one's number."""
        evaluated = {str(each.evaluates): number for number, each in enumerate(self.records)}
        return evaluated | {each.key: number for number, each in enumerate(self.records)}

    @cached_property
    def evaluations(self) -> Mapping[tuple[str, str], int]:
        """Key of a trial and suite -> number of the evaluation that measured it."""
        return {
            (each.evaluates, each.suite): number
            for number, each in enumerate(self.records)
            if each.evaluates and each.suite
        }

    @property
    def files(self) -> Iterator[tuple[str, list[dict[str, Any]]]]:
        """The files of details: their names and contents."""
        for start in range(0, len(self.records), IN_A_FILE):
            own = self.records[start : start + IN_A_FILE]
            yield f"trials-{start // IN_A_FILE}", [self._details(each) for each in own]

    def _details(self, record: Record) -> dict[str, Any]:
        facts = ((name, getattr(record, name)) for name in _FACTS)
        return {
            "label": record.label,
            "key": record.key,
            "status": record.status,
            "seed": record.seed,
            "subset": record.subset,
            "device": record.device or "",
            "reason": record.reason or "",
            "command": self.command(record),
            "configuration": [
                [name, text_of(value)] for name, value in sorted(record.configuration.items())
            ],
            "scores": [
                [split, DISPLAY.get(name, name), round(value, 4)]
                for split in ("dev", "test")
                for name, value in getattr(record, split).items()
            ],
            "facts": [[name, _fact(value)] for name, value in facts if value not in (None, "", {})],
        }


def keys_of_searches(table: pa.Table, searches: Collection[str]) -> set[str]:
    """The keys of the trials of searches, also of failed ones.

    With them come the trials that stand in one row of a table with them, whoever ran those.
    """
    rows = zip(table["key"].to_pylist(), table["search"].to_pylist(), strict=True)
    keys = {key for key, search in rows if search in searches}
    beside = [group.keys for group in comparable_groups(table) if not keys.isdisjoint(group.keys)]
    return keys.union(*beside)


def stored_records(table: pa.Table, keys: Set[str] | None) -> list[Record]:
    """The records of a store, sorted by key. `keys`: only these trials, and evaluations of them."""
    kept = rows_of(table.select(STORED_COLUMNS), keys)
    return [record_of(row) for row in kept.sort_by("key").to_pylist()]


def _fact(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {inner}" for name, inner in sorted(value.items()))
    if isinstance(value, float):
        return f"{value:,.1f}"
    return value if isinstance(value, str) else json.dumps(value, default=str).strip('"')
