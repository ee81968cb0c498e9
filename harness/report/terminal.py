"""Renders a sheet as plain text for the terminal."""

import io
from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.text import Text

from harness.report.rows import SheetLine
from harness.report.sheet import Sheet

_CONSOLE = Console(file=io.StringIO())
"""What rich wants to know for wrapping: how wide a tab is"""


def terminal_text(sheet: Sheet, width: int) -> str:
    """The sheet as text with lines of at most `width` characters.

    Two parts may be wider. A note stays on one line, because it may hold a command. A table keeps
    every digit and breaks no word.
    """
    parts = [_printed(sheet.title, width) + "\n"] if sheet.title else []
    if sheet.columns:
        rows, widths, gap = _fitted(sheet, width)
        parts.append(_table(sheet, rows, widths, gap) + "\n")
    parts += [_printed(sheet.caption, width)] if sheet.caption else []
    parts += [f"{note}\n" for note in sheet.notes]
    return "".join(parts)


def _printed(content: str, width: int) -> str:
    return "".join(line.rstrip(" ") + "\n" for line in _wrapped(content, width, "left"))


def _wrapped(content: str, width: int, justify: JustifyMethod) -> list[str]:
    """The lines of a text in at most `width` characters; a word is broken where it is longer."""
    found = []
    for line in content.split("\n"):
        if cell_len(line) <= width and line.isprintable():
            found.append(line)
        else:
            parts = Text(line).wrap(_CONSOLE, width, justify=justify, overflow="fold")
            found += [part.plain for part in parts]
    return found


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
) -> str:
    """The lines of a table: a heading, a rule, and the sections with an empty line between them.

    The words are wrapped by rich, and its tables are not used: a table of a thousand rows would
    take it several seconds.
    """
    texts = sheet.text_columns
    parts = []
    for section, cells in zip(sheet.sections, rows, strict=True):
        lines = _lines([section.name], texts, widths, gap) if section.name else []
        lines += [line for row in cells for line in _lines(row, texts, widths, gap)]
        parts += ["".join(f"{line}\n" for line in lines)] if lines else []
    heading = [*_lines(sheet.columns, texts, widths, gap, at_top=False), "─" * _total(widths, gap)]
    return "\n".join(heading) + "\n" + "\n".join(parts)


def _lines(
    row: Sequence[str], texts: int, widths: Sequence[int], gap: int, *, at_top: bool = True
) -> list[str]:
    """The lines of a row.

    `texts`: the number of leading columns that are text, not numbers. `at_top`: where a cell with
    fewer lines than others stands.
    """
    columns = []
    for index, (cell, width) in enumerate(zip(row, widths, strict=False)):
        side: JustifyMethod = "left" if index < texts else "right"
        columns.append([_filled(part, width, side) for part in _wrapped(cell, width, side)])
    height = max(map(len, columns))
    for parts, width in zip(columns, widths, strict=False):
        end = len(parts) if at_top else 0
        parts[end:end] = [" " * width] * (height - len(parts))
    return [(" " * gap).join(parts).rstrip(" ") for parts in zip(*columns, strict=True)]


def _filled(text: str, width: int, side: JustifyMethod) -> str:
    text = text.rstrip(" ")
    blank = " " * (width - cell_len(text))
    return text + blank if side == "left" else blank + text
