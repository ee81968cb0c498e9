"""Renders a sheet as plain text for the terminal."""

import io
import re
from collections.abc import Sequence

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from harness.report.sheet import Sheet, SheetLine


def terminal_text(sheet: Sheet, width: int) -> str:
    """The sheet as text with lines of at most `width` characters.

    Two parts may be wider. A note stays on one line, because it may hold a command. A table keeps
    every digit and breaks no word.
    """
    parts = [_printed(sheet.title, width) + "\n"] if sheet.title else []
    if sheet.columns:
        rows, widths, gap = _fitted(sheet, width)
        parts.append(
            _printed(_table(sheet, rows, widths, gap), max(width, _total(widths, gap))) + "\n"
        )
    parts += [_printed(sheet.caption, width)] if sheet.caption else []
    parts += [f"{note}\n" for note in sheet.notes]
    return "".join(parts)


def _printed(content: str | Table, width: int) -> str:
    console = Console(
        file=io.StringIO(),
        width=width,
        color_system=None,
        markup=False,
        emoji=False,
        highlight=False,
    )
    with console.capture() as capture:
        console.print(content)
    # rich fills the lines of a table with spaces.
    return re.sub(r" +$", "", capture.get(), flags=re.MULTILINE)


def _fitted(sheet: Sheet, width: int) -> tuple[list[list[SheetLine]], list[int], int]:
    """The widest layout that fits: first with less space, then with each ± on a line of its own.

    Returns the lines of each section, the widths of the columns and the space between them.
    """
    for gap, split in ((2, False), (1, False), (1, True)):
        rows = [
            [
                [cell.replace("±", "\n±") if split else cell for cell in line]
                for line in section.lines
            ]
            for section in sheet.sections
        ]
        widths = _widths(sheet, rows, width, gap)
        if _total(widths, gap) <= width:
            break
    return rows, widths, gap


def _widths(sheet: Sheet, rows: Sequence[Sequence[SheetLine]], width: int, gap: int) -> list[int]:
    """The widths of the columns: numbers get their full width, and text gets the rest.

    The widest text column becomes narrower first, down to its longest word. The width is not left
    to rich, which would break words in the widest column.
    """
    columns = list(zip(sheet.columns, *(line for lines in rows for line in lines), strict=True))
    headings = tuple(section.name for section in sheet.sections)
    columns[0] += headings
    widths = [
        max(cell_len(part) for cell in column for part in cell.split("\n")) for column in columns
    ]
    least = [
        max(cell_len(word) for cell in column for word in (cell.split() or [""]))
        for column in columns
    ]
    while _total(widths, gap) > width:
        text = [index for index in range(sheet.text_columns) if widths[index] > least[index]]
        if not text:
            break
        widths[max(text, key=lambda index: widths[index])] -= 1
    return widths


def _total(widths: Sequence[int], gap: int) -> int:
    return sum(widths) + gap * (len(widths) - 1)


def _table(
    sheet: Sheet, rows: Sequence[Sequence[SheetLine]], widths: Sequence[int], gap: int
) -> Table:
    """The table of rich: its box puts one space between columns, and the padding the rest."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, gap - 1, 0, 0), pad_edge=False, show_edge=False)
    for index, (column, width) in enumerate(zip(sheet.columns, widths, strict=True)):
        table.add_column(
            column,
            width=width,
            justify="left" if index < sheet.text_columns else "right",
            overflow="fold",
        )
    for section, lines in zip(sheet.sections, rows, strict=True):
        if section.name:
            table.add_row(section.name)
        for line in lines:
            table.add_row(*line)
        table.add_section()
    return table
