"""The sheets of `harness table` as tables of the page."""

import shlex
from collections.abc import Sequence
from typing import Any

from harness.report.formats.terminal import address_name
from harness.report.page.grid import Grid, GridCell
from harness.report.page.stored_trials import StoredTrials
from harness.report.sheets.rows import ComparedRow, ScoreRow, SheetCell, SheetLine
from harness.report.sheets.sheet import Section, Sheet

_VERDICTS = {
    True: "The published number lies in the 95 % prediction interval of our seeds.",
    False: "The published number lies outside the 95 % prediction interval of our seeds.",
}


def sheet_grid(name: str, sheet: Sheet, stored: StoredTrials) -> Grid:
    """A sheet as a table of the page. `stored`: the trials behind its scores."""
    rows = list(sheet.score_rows)
    compared = any(isinstance(row, ComparedRow) for row in rows)
    # A compared row has a second text column, for the line's name; here its lines share a cell.
    texts = sheet.text_columns - (1 if compared else 0)
    columns = [*sheet.columns[:texts], *sheet.columns[sheet.text_columns :]]
    return Grid(
        name=name,
        title=sheet.title,
        caption=" ".join(filter(None, [sheet.caption, sheet.legend()])),
        columns=columns,
        text_columns=texts,
        sections=[
            (section.name, _rows(section, sheet, stored, compared=compared))
            for section in sheet.sections
        ],
        notes=[note.strip() for note in sheet.notes],
        compared=compared,
        sortable=all(isinstance(row, ScoreRow) for each in sheet.sections for row in each.rows),
        show_options="".join(f" {shlex.quote(word)}" for word in sheet.show_options),
        quoted=compared and not any(cell.score for cell in sheet.cells),
    )


def _rows(
    section: Section, sheet: Sheet, stored: StoredTrials, *, compared: bool
) -> list[list[GridCell]]:
    return [
        _score_row(row, sheet.metrics, stored)
        if isinstance(row, ScoreRow)
        else _text_row(row, sheet.text_columns, compared=compared)
        for row in section.rows
    ]


def _text_row(line: SheetLine, texts: int, *, compared: bool) -> list[GridCell]:
    """A line of text; among compared rows, it has no column for the name of a line either."""
    return [*line[: texts - 1], *line[texts:]] if compared else list(line)


def _score_row(row: ScoreRow, metrics: Sequence[str], stored: StoredTrials) -> list[GridCell]:
    title = " ".join(filter(None, row.names))
    addresses = [f"{row.address}.{address_name(metric)}" for metric in metrics]
    return [
        *row.names,
        _number_of_runs(row),
        *(
            _score_cell(cell, title, address if row.address else "", stored)
            for cell, address in zip(row.cells, addresses, strict=True)
        ),
    ]


def _number_of_runs(row: ScoreRow) -> GridCell:
    trials = [cell.score.n for cell in row.cells if cell.score]
    found: dict[str, Any] = {"text": row.n, "value": max(trials, default=0)}
    if isinstance(row, ComparedRow):
        found |= {"text": row.n if trials else row.without, "published": row.published_n}
    return found


def _score_cell(cell: SheetCell, title: str, address: str, stored: StoredTrials) -> GridCell:
    """A score with its trials, and beside a paper the published number."""
    found: dict[str, Any] = {}
    if cell.published is not None:
        found = {
            "published": cell.published_text,
            "publishedValue": cell.published,
            "delta": cell.delta_text,
        }
    elif cell.printed:
        found = {"published": cell.printed}
    if cell.score is None:
        return {"text": "", **found} if found else ""
    suite = str(cell.score.suite)
    measured = [stored.evaluations.get((key, suite)) for key in cell.score.keys]
    score = {
        "row": title,
        "address": address,
        "trials": [stored.numbers[key] for key in cell.score.keys],
        "evaluations": [number for number in measured if number is not None],
        "values": list(cell.score.values),
        "verdict": _VERDICTS.get(cell.agrees, "") if cell.agrees is not None else "",
    }
    return {
        "text": str(cell.text),
        "value": cell.score.mean,
        "best": cell.best,
        **found,
        "score": score,
    }
