"""The content of the page: the records of a store, and its tables, also of the records."""

import json
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from harness.errors import counted, headline
from harness.evaluation.catalogue import DISPLAY
from harness.report.cells import Cell
from harness.report.groups import comparable_groups
from harness.report.measured_trials import SuiteOfData, rows_of, suite_of_data
from harness.report.row_names import text_of
from harness.report.tables import Line, Row, Table, address_name
from harness.trials.record import Record, record_of
from harness.trials.schema import WITHOUT_LARGE

REPORT_COLUMNS = (*WITHOUT_LARGE, "uncertainty")
"""The columns of the store that a report needs"""
IN_A_FILE = 200
"""Trials in one file of details, which is read when one of them is shown"""
_FIRST = ("label", "key", "status", "seed", "subset")
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
        evaluated = {str(one.evaluates): number for number, one in enumerate(self.records)}
        return evaluated | {one.key: number for number, one in enumerate(self.records)}

    @cached_property
    def evaluations(self) -> Mapping[tuple[str, SuiteOfData], int]:
        """Key of a trial and suite -> number of the evaluation that measured it."""
        return {
            (record.evaluates, suite_of_data(record.suite, record.suite_card)): number
            for number, record in enumerate(self.records)
            if record.evaluates and record.suite
        }

    @property
    def files(self) -> Iterator[tuple[str, list[dict[str, Any]]]]:
        """The files of details: their names and contents."""
        for start in range(0, len(self.records), IN_A_FILE):
            own = self.records[start : start + IN_A_FILE]
            yield f"trials-{start // IN_A_FILE}", [self._details(record) for record in own]

    def _details(self, record: Record) -> dict[str, Any]:
        facts = ((name, getattr(record, name)) for name in _FACTS)
        return {
            **{name: getattr(record, name) for name in _FIRST},
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
    kept = rows_of(table.select(WITHOUT_LARGE), keys)
    return [record_of(row) for row in kept.sort_by("key").to_pylist()]


def _fact(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {inner}" for name, inner in sorted(value.items()))
    if isinstance(value, float):
        return f"{value:,.1f}"
    return value if isinstance(value, str) else json.dumps(value, default=str).strip('"')


GridCell = str | Mapping[str, Any]
"""Text, or an object with `text` and more.

`value`: the number by which it is sorted. `trial`: the trial that a click shows. `score`: what a
click shows of a score.
"""


_VERDICTS = {
    True: "The published number lies in the 95 % prediction interval of our seeds.",
    False: "The published number lies outside the 95 % prediction interval of our seeds.",
    None: "",
}


@dataclass(frozen=True)
class Grid:
    """A table of the page."""

    name: str
    """The name of its file, such as `table-1`"""
    title: str
    caption: str
    columns: Sequence[str]
    text_columns: int
    """The leading columns that are text; the others are numbers"""
    sections: Sequence[Mapping[str, Any]]
    """`name`: the heading; `rows`: the cells of each row below it"""
    notes: Sequence[str] = ()
    compared: bool = False
    """Whether it has published numbers, which the reader may show and hide"""
    quoted: bool = False
    """Whether it has no score of ours, so that the published numbers are shown from the start"""
    sortable: bool = True
    """Whether every row stands for itself"""
    show_options: str = ""
    """The words that `harness show` needs behind the address of a score"""

    @property
    def data(self) -> dict[str, Any]:
        """The content of its file, for the script; the page has the notes."""
        return {name: value for name, value in vars(self).items() if name not in ("name", "notes")}


def table_grid(name: str, table: Table, stored: StoredTrials) -> Grid:
    """A table of `harness table`. `stored`: the trials behind its scores."""
    compared = any(row.compared for row in table.rows)
    cells = [cell for row in table.rows for cell in row.cells]
    # A compared row has a second text column, for the line's name; here its lines share a cell.
    texts = table.text_columns - (1 if compared else 0)
    return Grid(
        name=name,
        title=table.title,
        caption=" ".join(filter(None, [table.caption, table.legend()])),
        columns=[*table.columns[:texts], *table.columns[table.text_columns :]],
        text_columns=texts,
        sections=[
            {
                "name": section.name,
                "rows": [_row(row, table, texts, stored) for row in section.rows],
            }
            for section in table.sections
        ],
        notes=[note.strip() for note in table.notes],
        compared=any(cell.published_text for cell in cells),
        sortable=all(isinstance(row, Row) for each in table.sections for row in each.rows),
        show_options="".join(f" {shlex.quote(word)}" for word in table.show_options),
        quoted=compared and not any(cell.ours for cell in cells),
    )


def _row(row: Row | Line, table: Table, texts: int, stored: StoredTrials) -> list[GridCell]:
    if not isinstance(row, Row):
        # Among compared rows, a line of text has no column for the name of a line either.
        return [*row[:texts], *row[table.text_columns :]]
    trials = [cell.ours.n for cell in row.cells if cell.ours]
    runs: dict[str, Any] = {"text": row.n, "value": max(trials, default=0)}
    if row.compared:
        runs |= {"text": row.n if trials else row.without, "published": row.published_n}
    title = " ".join(filter(None, row.names))
    scores = [
        _score(cell, title, f"{row.address}.{address_name(metric)}", stored)
        for cell, metric in zip(row.cells, table.metrics, strict=True)
    ]
    return [*row.names, runs, *scores]


def _score(cell: Cell, title: str, address: str, stored: StoredTrials) -> GridCell:
    """A score with its trials, and beside a paper the published number."""
    beside: dict[str, Any] = {}
    published = cell.published
    if published and cell.number is not None:
        beside = {
            "published": cell.published_text,
            "publishedValue": cell.number,
            "delta": cell.difference_text,
        }
    elif published and published.printed:
        beside = {"published": published.printed}
    if cell.ours is None:
        return {"text": "", **beside} if beside else ""
    suite = cell.ours.suite
    evaluations = [suite and stored.evaluations.get((key, suite)) for key in cell.ours.keys]
    score = {
        "row": title,
        "address": address,
        "trials": [stored.numbers[key] for key in cell.ours.keys],
        "evaluations": [number for number in evaluations if number is not None],
        "values": list(cell.ours.values),
        "verdict": f"Reason: {cell.why_not[1]}." if cell.why_not else _VERDICTS[cell.agrees],
    }
    text = {"text": str(cell.text), "value": cell.ours.mean, "best": cell.best}
    return {**text, **beside, "score": score}


def record_grids(records: Sequence[Record]) -> list[tuple[str, Grid]]:
    """(heading, table) of what the records say besides scores."""
    return [("Failures", _failures(records)), ("All trials", _trials(records))]


def _number(value: float | None, decimals: int = 0) -> GridCell:
    """A number that is sorted as one; an empty cell where there is none."""
    return "" if value is None else {"text": f"{value:,.{decimals}f}", "value": value}


def _trials(records: Sequence[Record]) -> Grid:
    """Every record of the store, one in a row."""
    rows = [
        [
            {"text": record.key[:10], "trial": number},
            *(record.method, record.setting, record.encoder, record.role, record.status),
            {"text": str(record.seed), "value": record.seed},
            _number(record.dev_score, 2),
            _number(record.wall_seconds),
        ]
        for number, record in enumerate(records)
    ]
    metrics = sorted({str(record.selected_by) for record in records if record.selected_by})
    dev = f" dev: {', '.join(DISPLAY.get(name, name) for name in metrics)}." if metrics else ""
    hours = sum(record.wall_seconds or 0 for record in records) / 3600
    caption = (
        f"{counted(len(records), 'record')} of trials and evaluations, {hours:,.1f} hours "
        f"together.{dev}"
    )
    texts = ("key", "method", "setting", "encoder", "role", "status")
    columns = (*texts, "seed", "dev", "seconds")
    return Grid("trials", "", caption, columns, len(texts), [{"name": "", "rows": rows}])


def _failures(records: Sequence[Record]) -> Grid:
    """The failed and partial records with their reasons; a click shows the end of the output."""
    rows: list[list[GridCell]] = [
        [
            {"text": record.label, "trial": number},
            *(record.role, record.status, headline(record.reason) or "no reason given"),
        ]
        for number, record in enumerate(records)
        if record.status in ("failed", "partial")
    ]
    pruned = sum(record.status == "pruned" for record in records)
    more = f" Another {pruned} were ended early by their search." if pruned else ""
    caption = f"{len(rows)} of {counted(len(records), 'record')} failed or lack scores.{more}"
    columns = ("trial", "role", "status", "reason")
    return Grid("failures", "", caption, columns, len(columns), [{"name": "", "rows": rows}])
