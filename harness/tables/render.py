"""Sheets as bytes: terminal, Markdown, CSV, LaTeX, Parquet. The same sheets give the same bytes."""

import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from harness.tables.latex import latex
from harness.tables.sheet import Line, Section, Sheet


def render(sheets: Sequence[Sheet], format: str, width: int) -> bytes:
    """The sheets, one under another. `width`: characters in a line, for the terminal only."""
    if format == "terminal":
        return "\n".join(terminal(sheet, width) for sheet in sheets).encode()
    return _FORMATS[format](sheets)


def terminal(sheet: Sheet, width: int) -> str:
    """Plain text no wider than `width`, but for notes: these hold commands, which must stay on one line."""
    console = Console(file=io.StringIO(), width=width, color_system=None, markup=False, emoji=False, highlight=False)
    with console.capture() as capture:
        if sheet.title:
            console.print(sheet.title)
        if sheet.columns:
            console.print(_fitted(sheet, console))
        if sheet.caption:
            console.print(sheet.caption)
        for note in sheet.notes:
            console.print(note, soft_wrap=True)
    return re.sub(r" +$", "", capture.get(), flags=re.MULTILINE)


def _fitted(sheet: Sheet, console: Console) -> Table:
    """The widest layout that fits: first less space between the columns, then each ± on a line of its own."""
    for gap, split in ((1, False), (0, False), (0, True)):
        table = _rich_table(sheet, gap, split)
        if Measurement.get(console, console.options, table).minimum <= console.width:
            break
    return table


def _rich_table(sheet: Sheet, gap: int, split: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, gap, 0, 0), show_edge=False)
    for index, column in enumerate(sheet.columns):
        number = index >= sheet.text_columns
        table.add_column(column, justify="right" if number else "left", no_wrap=number, overflow="fold")
    for section in sheet.sections:
        if section.name:
            table.add_row(section.name)
        for line in section.lines:
            table.add_row(*(cell.replace("±", "\n±") if split else cell for cell in line))
        table.add_section()
    return table


def markdown(sheet: Sheet) -> str:
    """A GitHub table; headings of sections are rows."""
    blocks = [f"**{_markdown_text(sheet.title)}**"] if sheet.title else []
    if sheet.columns:
        alignment = [":--" if index < sheet.text_columns else "--:" for index in range(len(sheet.columns))]
        rows = [line for section in sheet.sections for line in _with_heading(section, len(sheet.columns))]
        lines = [_markdown_line(sheet.columns), _markdown_row(alignment), *map(_markdown_line, rows)]
        blocks.append("\n".join(lines))
    blocks += [_markdown_text(text) for text in (sheet.caption, *sheet.notes) if text]
    return "\n\n".join(blocks) + "\n"


def _with_heading(section: Section, width: int) -> list[Line]:
    return [*([[section.name] + [""] * (width - 1)] if section.name else []), *section.lines]


def _markdown_line(cells: Sequence[str]) -> str:
    return _markdown_row([_markdown_text(cell) for cell in cells])


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown_text(text: str) -> str:
    """Text on one line, with the characters escaped that Markdown or HTML would take for its own."""
    return re.sub(r"([\\|*_`<])", r"\\\1", " ".join(text.split()))


def _csv(sheets: Sequence[Sheet]) -> bytes:
    records = _records(sheets)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(records.column_names)
    writer.writerows(zip(*(column.to_pylist() for column in records.columns), strict=True))
    return text.getvalue().encode()


def _parquet(sheets: Sequence[Sheet]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(_records(sheets), sink)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _records(sheets: Sequence[Sheet]) -> pa.Table:
    return pa.concat_tables([sheet.records for sheet in sheets])


_FORMATS: Mapping[str, Callable[[Sequence[Sheet]], bytes]] = {
    "markdown": lambda sheets: "\n".join(map(markdown, sheets)).encode(),
    "csv": _csv,
    "latex": lambda sheets: "\n".join(map(latex, sheets)).encode(),
    "parquet": _parquet,
}
