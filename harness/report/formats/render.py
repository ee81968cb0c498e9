"""Renders sheets as bytes: for the terminal, as Markdown, LaTeX, HTML, CSV, JSON or Parquet.

The same sheets give the same bytes.
"""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness.errors import visible
from harness.report.formats.csv_text import csv_text
from harness.report.formats.html import html_page
from harness.report.formats.latex import latex_text
from harness.report.formats.terminal import address_note, terminal_text
from harness.report.sheets.rows import Bold, SheetLine
from harness.report.sheets.sheet import Section, Sheet


def render_sheets(sheets: Sequence[Sheet], format: str, width: int, *, bold: bool = False) -> bytes:
    """The sheets in one of the formats of `harness table --format`, one below the other.

    For the terminal only: `width`, the characters in a line, and `bold`, whether it can show it.
    """
    if format == "terminal":
        tables = "\n".join(terminal_text(sheet, width, bold=bold) for sheet in sheets)
        return (tables + address_note(sheets, width)).encode()
    return _FORMATS[format](sheets)


def markdown_text(sheet: Sheet) -> str:
    """A table in the Markdown of GitHub; the headings of sections are rows."""
    blocks = [f"**{escaped(sheet.title)}**"] if sheet.title else []
    if sheet.columns:
        alignment = [
            ":--" if index < sheet.text_columns else "--:" for index in range(len(sheet.columns))
        ]
        rows = [
            line
            for section in sheet.sections
            for line in _with_heading(section, len(sheet.columns))
        ]
        lines = [
            _markdown_line(sheet.columns),
            _markdown_row(alignment),
            *map(_markdown_line, rows),
        ]
        blocks.append("\n".join(lines))
    blocks += [escaped(text) for text in (sheet.caption, sheet.legend(), *sheet.notes) if text]
    return "\n\n".join(blocks) + "\n"


def _with_heading(section: Section, width: int) -> list[SheetLine]:
    return [*([[section.name] + [""] * (width - 1)] if section.name else []), *section.lines]


def _markdown_line(cells: Sequence[str]) -> str:
    return _markdown_row(
        [f"**{escaped(cell)}**" if isinstance(cell, Bold) else escaped(cell) for cell in cells]
    )


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def escaped(text: str) -> str:
    """The text on one line, with the special characters of Markdown and HTML escaped."""
    return re.sub(r"([\\|*_`<>&~\[\]])", r"\\\1", visible(" ".join(text.split())))


def _csv(sheets: Sequence[Sheet]) -> bytes:
    records = _records(sheets).drop_columns("trials")  # a list has no place in a line of CSV
    rows = zip(*(column.to_pylist() for column in records.columns), strict=True)
    return csv_text(records.column_names, rows).encode()


def _json(sheets: Sequence[Sheet]) -> bytes:
    """A list of tables: each has its title, caption, notes and records, one for each cell."""
    tables = [
        {
            "title": sheet.title,
            "caption": sheet.caption,
            "notes": list(sheet.notes),
            "records": [_plain(row) for row in sheet.records.to_pylist()],
        }
        for sheet in sheets
    ]
    text = json.dumps(tables, ensure_ascii=False, indent=1, allow_nan=False)
    # What a terminal would obey or hide is escaped as JSON can, so the value stays the same.
    shown = (
        each if each == "\n" or each.isprintable() else json.dumps(each)[1:-1] for each in text
    )
    return f"{''.join(shown)}\n".encode()


def _plain(value: Any) -> Any:
    """A value as JSON can hold it: what is not a finite number is null."""
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _parquet(sheets: Sequence[Sheet]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(_records(sheets), sink)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _records(sheets: Sequence[Sheet]) -> pa.Table:
    return pa.concat_tables([sheet.records for sheet in sheets])


_FORMATS: Mapping[str, Callable[[Sequence[Sheet]], bytes]] = {
    "markdown": lambda sheets: "\n".join(map(markdown_text, sheets)).encode(),
    "csv": _csv,
    "latex": lambda sheets: "\n".join(map(latex_text, sheets)).encode(),
    "html": lambda sheets: html_page(sheets).encode(),
    "json": _json,
    "parquet": _parquet,
}
