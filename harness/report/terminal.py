"""Renders a table as plain text for the terminal.

Where a table is wider than the terminal, it is printed in several blocks: the averages first, then
the tasks. The number in front of a row says which lines belong together. There are no colours,
because each of them vanishes on some background; the best scores are bold.
"""

import io
import shlex
from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.text import Text

from harness.errors import one_line
from harness.report.cells import BEST, Bold
from harness.report.tables import Line, Row, Table, address_name

_CONSOLE = Console(file=io.StringIO())
"""A console, which rich asks for wrapping"""
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"


def terminal_text(table: Table, width: int, *, bold: bool = False) -> str:
    """The table as text with lines of at most `width` characters.

    Two parts may be wider. A command stays on one line of its own, so that it can be copied. A
    table keeps every digit and breaks no word. `bold`: whether the best scores are printed in bold;
    else they have a sign.
    """
    parts = [_printed(table.title, width) + "\n"] if table.title else []
    if table.columns:
        layout = _Layout(table, bold=bold)
        blocks = _blocks(layout, table, width)
        parts += [_table(layout, block, width) + "\n" for block in blocks]
    caption = " ".join(filter(None, [table.caption, table.legend(bold=bold)]))
    parts += [_printed(caption, width)] if caption else []
    parts += [_note(note, width) for note in table.notes]
    return "".join(parts)


def _note(text: str, width: int) -> str:
    """A note in lines that break between words; the command at its end has a line of its own."""
    text = _shown(text)
    if cell_len(text) <= width:
        return f"{text}\n"
    words, colon, command = text.rpartition(": harness ")
    if not colon:
        return _printed(text, width)
    return f"{_printed(f'{words}:', width)}  harness {command}\n"


def address_note(tables: Sequence[Table], width: int) -> str:
    """A line that says how to ask for a cell of the tables; "" where no cell has an address."""
    for table, row in ((each, row) for each in tables for row in each.rows):
        scores = dict(zip(table.metrics, (cell.ours for cell in row.cells), strict=False))
        named = [name for name in table.averages if name.rpartition(":")[2] != "dev"]
        shown = (name for name in (*named, *reversed(table.metrics)) if scores.get(name))
        name = next(shown, None)
        if row.address and name:
            words = ["harness", "show", f"{row.address}.{address_name(name)}", *table.show_options]
            purpose = "The trials of a cell, and the command that runs them again"
            return _note(f"{purpose}: {shlex.join(words)}", width)
    return ""


class _Layout:
    """All lines of a table, with the number of its row before each, and their widths."""

    def __init__(self, table: Table, *, bold: bool) -> None:
        self.bold = bold
        self.texts = table.text_columns + 1
        """The leading columns that are text, the number of the row among them"""
        self.heading = ["#", *map(_shown, table.columns)]
        self.sections: list[tuple[str, list[Line]]] = []
        for section in table.sections:
            lines = []
            for row in section.rows:
                number = row.address.rpartition(".")[2] if isinstance(row, Row) else ""
                for line in row.lines if isinstance(row, Row) else [row]:
                    # What cannot be printed in bold has a sign.
                    signed = [
                        cell if bold or not isinstance(cell, Bold) else f"{cell}{BEST}"
                        for cell in line
                    ]
                    lines.append([number, *map(_shown, signed)])
                    number = ""  # it stands before the first line of a row only
            self.sections.append((section.name, lines))
        lines = [self.heading, *(line for _, lines in self.sections for line in lines)]
        columns = list(zip(*lines, strict=True))
        self.widths = [max(map(cell_len, column)) for column in columns]
        words = [[word for cell in column for word in cell.split()] for column in columns]
        self.least = [max(map(cell_len, column), default=0) for column in words]
        self.leading = [*([0] if any(columns[0][1:]) else []), *range(1, self.texts)]

    def block(self, columns: Sequence[int], gap: int, width: int) -> "_Block":
        """A block of these columns, which is wider than `width` where it cannot be narrower.

        The text columns become narrower, the widest first, down to its longest word. The width is
        not left to rich, which would break words.
        """
        widths, gaps = {at: self.widths[at] for at in columns}, gap * (len(columns) - 1)
        while sum(widths.values()) + gaps > width:
            wide = [at for at in columns if at < self.texts and widths[at] > self.least[at]]
            if not wide:
                break
            widths[max(wide, key=lambda at: widths[at])] -= 1
        return _Block(widths, gap, sum(widths.values()) + gaps)

    def lines(self, row: Line, block: "_Block", *, at_top: bool = True) -> list[str]:
        """The lines of a row. `at_top`: where a cell with fewer lines than others stands."""
        columns = []
        for at, width in block.widths.items():
            side: JustifyMethod = "left" if at < self.texts else "right"
            strong = self.bold and isinstance(row[at], Bold)
            parts = []
            for part in _wrapped(row[at], width, side):
                text = part.rstrip(" ")
                blank = " " * (width - cell_len(text))
                shown = f"{_BOLD}{text}{_PLAIN}" if strong else text
                parts.append(shown + blank if side == "left" else blank + shown)
            columns.append(parts)
        height = max(map(len, columns))
        for parts, width in zip(columns, block.widths.values(), strict=True):
            end = len(parts) if at_top else 0
            parts[end:end] = [" " * width] * (height - len(parts))
        return [(" " * block.gap).join(parts).rstrip(" ") for parts in zip(*columns, strict=True)]


class _Block(NamedTuple):
    """Some columns of a table, side by side."""

    widths: dict[int, int]
    """Column -> the characters that it takes"""
    gap: int
    total: int
    """The characters of a line"""


def _blocks(layout: _Layout, table: Table, width: int) -> list[_Block]:
    """The whole table where it fits, or else its blocks: the averages first, then the tasks.

    A block has as many columns of scores as fit behind the leading ones. All but the first have of
    these only the number, the first one, and those without a heading.
    """
    numbers = list(range(layout.texts, len(layout.heading)))
    for gap in (2, 1):
        whole = layout.block([*layout.leading, *numbers], gap, width)
        if whole.total <= width:
            return [whole]
    names = dict(enumerate(table.metrics, layout.texts + 1))
    first = [name for name in table.averages if name in names.values()]
    leading, rest = [*layout.leading, *numbers[:1]], numbers[1:]
    rest.sort(key=lambda at: first.index(names[at]) if names.get(at) in first else len(first))
    blocks: list[_Block] = []
    while rest or not blocks:
        least = 1 if blocks else 0
        for count in range(len(rest), -1, -1):
            block = layout.block([*leading, *rest[:count]], 2, width)
            if block.total <= width or count <= least:
                break
        blocks.append(block)
        rest = rest[count:]
        if len(blocks) == 1:
            leading = [
                at for at in leading if at <= 1 or (at < layout.texts and not layout.heading[at])
            ]
    return blocks


def _table(layout: _Layout, block: _Block, width: int) -> str:
    """The lines of a table: a heading, a rule, and the sections with an empty line between them.

    The words are wrapped by rich, and its tables are not used: a table of a thousand rows would
    take it several seconds.
    """
    parts = []
    for name, rows in layout.sections:
        lines = _printed(name, width).splitlines() if name else []
        lines += [line for row in rows for line in layout.lines(row, block)]
        parts += ["".join(f"{line}\n" for line in lines)] if lines else []
    top = layout.lines(layout.heading, block, at_top=False)
    return "\n".join([*top, "─" * block.total]) + "\n" + "\n".join(parts)


def _printed(content: str, width: int) -> str:
    return "".join(line.rstrip(" ") + "\n" for line in _wrapped(_shown(content), width, "left"))


def _shown(text: str) -> str:
    """The text, in which what a terminal would obey is shown by its escapes."""
    return text if text.isprintable() else one_line(text)


def _wrapped(content: str, width: int, justify: JustifyMethod) -> list[str]:
    """The lines of a text in at most `width` characters; a word is broken where it is longer."""
    if cell_len(content) <= width:
        return [content]
    parts = Text(content).wrap(_CONSOLE, width, justify=justify, overflow="fold")
    return [part.plain for part in parts]
