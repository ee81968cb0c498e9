"""Renders a table as plain text for the terminal.

Where a table is wider than the terminal, it is printed in several blocks: the averages first, then
the tasks. The number in front of a row says which lines belong together. There are no colours,
because each of them vanishes on some background; the best scores are bold.
"""

import io
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.text import Text

from harness.errors import one_line
from harness.report.cells import BEST, Bold
from harness.report.tables import Line, Row, Section, Table, address_name

_CONSOLE = Console(file=io.StringIO())
"""What rich wants to know for wrapping"""
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
        blocks = _blocks(layout, width)
        parts += [_table(layout, block, width, bold=bold) + "\n" for block in blocks]
    caption = " ".join(filter(None, [table.caption, table.legend(bold=bold)]))
    parts += [_printed(caption, width)] if caption else []
    parts += [_note(note, width) for note in table.notes]
    return "".join(parts)


def _note(text: str, width: int) -> str:
    """A note in lines that break between words; the command at its end has a line of its own."""
    text = _shown(text)
    if cell_len(text) <= width:
        return f"{text}\n"
    said, colon, command = text.rpartition(": harness ")
    if not colon:
        return _printed(text, width)
    return f"{_printed(f'{said}:', width)}  harness {command}\n"


def address_note(tables: Sequence[Table], width: int) -> str:
    """A line that says how to ask for a cell of the tables; "" where no cell has an address."""
    for table, row in ((each, row) for each in tables for row in each.rows):
        scores = dict(zip(table.metrics, (cell.ours for cell in row.cells), strict=False))
        named = [name for name in table.averages if name != "dev"]
        shown = (name for name in (*named, *reversed(table.metrics)) if scores.get(name))
        name = next(shown, None)
        if row.address and name:
            words = ["harness", "show", f"{row.address}.{address_name(name)}", *table.show_options]
            what = "The trials of a cell, and the command that runs them again"
            return _note(f"{what}: {shlex.join(words)}", width)
    return ""


class _Layout:
    """All lines of a table, with the number of its row before each, and their widths."""

    def __init__(self, table: Table, *, bold: bool) -> None:
        self.table, self.texts = table, table.text_columns + 1
        """The leading columns that are text, the number of the row among them"""
        self.heading = ["#", *map(_shown, table.columns)]
        self.sections = [
            (section.name, [_signed(line, bold=bold) for line in _numbered(section)])
            for section in table.sections
        ]
        cells = [self.heading, *(line for _, lines in self.sections for line in lines)]
        columns = list(zip(*cells, strict=True))
        self.widths = [max(map(cell_len, column)) for column in columns]
        words = [[word for cell in column for word in cell.split()] for column in columns]
        self.least = [max(map(cell_len, found), default=0) for found in words]
        self.numbered = any(columns[0][1:])

    def block(self, columns: Sequence[int], gap: int, width: int) -> tuple["_Block", bool]:
        """A block of these columns, and whether its lines fit.

        The text columns become narrower, the widest first, down to its longest word. The width is
        not left to rich, which would break words.
        """
        found = _Block(list(columns), {at: self.widths[at] for at in columns}, gap)
        while found.total > width:
            wide = [at for at in columns if at < self.texts and found.widths[at] > self.least[at]]
            if not wide:
                return found, False
            found.widths[max(wide, key=lambda at: found.widths[at])] -= 1
        return found, True


@dataclass(frozen=True)
class _Block:
    """Some columns of a table, side by side."""

    columns: list[int]
    widths: dict[int, int]
    gap: int

    @property
    def total(self) -> int:
        """The characters of a line."""
        return sum(self.widths.values()) + self.gap * (len(self.widths) - 1)


def _blocks(layout: _Layout, width: int) -> list[_Block]:
    """The whole table where it fits, or else its blocks: the averages first, then the tasks."""
    table = layout.table
    texts = [*([0] if layout.numbered else []), *range(1, layout.texts)]
    numbers = list(range(layout.texts, len(layout.heading)))
    n, scores = numbers[:1], numbers[1:]
    for gap in (2, 1):
        whole, fits = layout.block([*texts, *numbers], gap, width)
        if fits:
            return [whole]
    names = dict(enumerate(table.metrics, layout.texts + 1))
    first = [name for name in table.averages if name in names.values()]
    scores.sort(key=lambda at: first.index(names[at]) if names.get(at) in first else len(first))
    return _filled_blocks(layout, width, [*texts, *n], scores)


def _filled_blocks(
    layout: _Layout, width: int, leading: Sequence[int], scores: Sequence[int]
) -> list[_Block]:
    """Blocks with as many columns of scores as fit behind the leading ones.

    All but the first have of these only the number, the first one, and those without a heading.
    """
    brief = [at for at in leading if at <= 1 or (at < layout.texts and not layout.heading[at])]
    found: list[_Block] = []
    rest = list(scores)
    while rest or not found:
        least = 1 if found else 0
        for count in range(len(rest), -1, -1):
            columns = [*(brief if found else leading), *rest[:count]]
            block, fits = layout.block(columns, 2, width)
            if fits or count <= least:
                break
        found.append(block)
        rest = rest[count:]
    return found


def _numbered(section: Section) -> list[Line]:
    """The lines of a section, each behind the last part of its row's address."""
    found = []
    for row in section.rows:
        scored = row if isinstance(row, Row) else None
        number = scored.address.rpartition(".")[2] if scored else ""
        for line in row.lines if isinstance(row, Row) else [row]:
            found.append([number, *map(_shown, line)])
            number = ""  # it stands before the first line of a row only
    return found


def _signed(line: Line, *, bold: bool) -> Line:
    """The line, in which what cannot be printed in bold has a sign."""
    return line if bold else [f"{cell}{BEST}" if isinstance(cell, Bold) else cell for cell in line]


def _table(layout: _Layout, block: _Block, width: int, *, bold: bool) -> str:
    """The lines of a table: a heading, a rule, and the sections with an empty line between them.

    The words are wrapped by rich, and its tables are not used: a table of a thousand rows would
    take it several seconds.
    """
    parts = []
    for name, rows in layout.sections:
        lines = _printed(name, width).splitlines() if name else []
        lines += [line for row in rows for line in _lines(row, layout, block, bold=bold)]
        parts += ["".join(f"{line}\n" for line in lines)] if lines else []
    top = _lines(layout.heading, layout, block, bold=False, at_top=False)
    return "\n".join([*top, "─" * block.total]) + "\n" + "\n".join(parts)


def _lines(
    row: Line, layout: _Layout, block: _Block, *, bold: bool, at_top: bool = True
) -> list[str]:
    """The lines of a row. `at_top`: where a cell with fewer lines than others stands."""
    columns = []
    for at in block.columns:
        cell, width = row[at], block.widths[at]
        side: JustifyMethod = "left" if at < layout.texts else "right"
        strong = bold and isinstance(cell, Bold)
        columns.append(
            [_filled(part, width, side, strong=strong) for part in _wrapped(cell, width, side)]
        )
    height = max(map(len, columns))
    for parts, width in zip(columns, block.widths.values(), strict=True):
        end = len(parts) if at_top else 0
        parts[end:end] = [" " * width] * (height - len(parts))
    return [(" " * block.gap).join(parts).rstrip(" ") for parts in zip(*columns, strict=True)]


def _filled(text: str, width: int, side: JustifyMethod, *, strong: bool) -> str:
    text = text.rstrip(" ")
    blank = " " * (width - cell_len(text))
    shown = f"{_BOLD}{text}{_PLAIN}" if strong else text
    return shown + blank if side == "left" else blank + shown


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
