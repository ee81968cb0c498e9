"""The tables of the page: those of `harness table`, and what the records of a store say besides."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.errors import counted, headline
from harness.evaluation.catalogue import DISPLAY
from harness.report.cells import Cell
from harness.report.page.stored_trials import StoredTrials
from harness.report.tables import Line, Row, Table, address_name
from harness.trials.record import Record

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
        compared=compared,
        sortable=all(isinstance(row, Row) for each in table.sections for row in each.rows),
        show_options="".join(f" {shlex.quote(word)}" for word in table.show_options),
        quoted=compared and not any(cell.ours for cell in table.cells),
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
    suite = str(cell.ours.suite)
    evaluations = [stored.evaluations.get((key, suite)) for key in cell.ours.keys]
    score = {
        "row": title,
        "address": address,
        "trials": [stored.numbers[key] for key in cell.ours.keys],
        "evaluations": [number for number in evaluations if number is not None],
        "values": list(cell.ours.values),
        "verdict": _VERDICTS[cell.agrees],
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
        f"{counted(len(records), 'trial and evaluation')} of the store, {hours:,.1f} hours "
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
