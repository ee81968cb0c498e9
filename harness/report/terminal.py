"""Renders a sheet as plain text for the terminal.

Where a table is wider than the terminal, it is printed in several blocks: the averages first, then
the tasks. The number in front of a row says which lines belong together. There are no colours,
because each of them vanishes on some background; the best scores are bold.
"""

import io
from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.text import Text

from harness.errors import one_line
from harness.report.rows import Bold, ScoreRow, SheetLine
from harness.report.sheet import Section, Sheet

_CONSOLE = Console(file=io.StringIO())
"""What rich wants to know for wrapping"""
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"


def terminal_text(sheet: Sheet, width: int, *, bold: bool = False) -> str:
    """The sheet as text with lines of at most `width` characters.

    Two parts may be wider. A note stays on one line, because it may hold a command. A table keeps
    every digit and breaks no word. `bold`: whether the best scores are printed in bold.
    """
    parts = [_printed(sheet.title, width) + "\n"] if sheet.title else []
    if sheet.columns:
        parts += [_table(block, width, bold=bold) + "\n" for block in _blocks(sheet, width)]
    caption = " ".join(filter(None, [sheet.caption, sheet.legend(bold=bold)]))
    parts += [_printed(caption, width)] if caption else []
    parts += [f"{note}\n" for note in sheet.notes]
    return "".join(parts)


def address_note(sheets: Sequence[Sheet]) -> str:
    """A line that says how to ask for a cell of the tables; "" where no cell has an address."""
    for sheet, row in ((each, row) for each in sheets for row in each.score_rows):
        scores = dict(zip(sheet.metrics, (cell.score for cell in row.cells), strict=False))
        shown = (name for name in (*sheet.averages, *sheet.metrics) if scores.get(name))
        name = next(shown, None)
        if row.address and name:
            return (
                f"harness show {row.address}.{address_name(name)}: the trials of this cell, and "
                "the command that runs them again\n"
            )
    return ""


def address_name(metric: str) -> str:
    """The name of a column as it is typed: `avg` for `Avg.`, `sts-b` for `STS-B`."""
    return metric.lower().rstrip(".").replace(" ", "-")


class _Block:
    """Some columns of a table, as lines of text under their headings."""

    def __init__(self, sheet: Sheet, columns: Sequence[int], gap: int = 2) -> None:
        self.texts = sum(column <= sheet.text_columns for column in columns)
        """Leading columns that are text, the number of the row among them"""
        self.gap = gap
        self.heading = _picked(["#", *sheet.columns], columns)
        self.sections = [
            (section.name, [_picked(line, columns) for line in _numbered(section)])
            for section in sheet.sections
        ]
        cells = [self.heading, *(line for _, lines in self.sections for line in lines)]
        by_column = list(zip(*cells, strict=True))
        self.widths = [max(map(cell_len, column)) for column in by_column]
        self.least = [
            max(cell_len(word) for cell in column for word in (cell.split() or [""]))
            for column in by_column
        ]

    @property
    def total(self) -> int:
        """The characters of a line."""
        return sum(self.widths) + self.gap * (len(self.widths) - 1)

    def narrow(self, width: int) -> bool:
        """Make the text columns narrower, the widest first, down to its longest word.

        It says whether the lines fit. The width is not left to rich, which would break words.
        """
        while self.total > width:
            text = [at for at in range(self.texts) if self.widths[at] > self.least[at]]
            if not text:
                return False
            self.widths[max(text, key=lambda at: self.widths[at])] -= 1
        return True


def _blocks(sheet: Sheet, width: int) -> list[_Block]:
    """The whole table where it fits, or else its blocks: the averages first, then the tasks."""
    numbered = any(line[0] for section in sheet.sections for line in _numbered(section))
    texts = [*([0] if numbered else []), *range(1, sheet.text_columns + 1)]
    scores = list(range(sheet.text_columns + 1, len(sheet.columns) + 1))
    for gap in (2, 1):
        whole = _Block(sheet, [*texts, *scores], gap)
        if whole.narrow(width):
            return [whole]
    n, *scores = scores
    names = dict(enumerate(sheet.metrics, n + 1))
    first = [name for name in sheet.averages if name in names.values()]
    scores.sort(key=lambda at: first.index(names[at]) if names.get(at) in first else len(first))
    return _filled_blocks(sheet, width, [*texts, n], scores)


def _filled_blocks(
    sheet: Sheet, width: int, leading: Sequence[int], scores: Sequence[int]
) -> list[_Block]:
    """Blocks with as many columns of scores as fit behind the leading ones.

    All but the first have of these only the number, the first one, and those without a heading.
    """
    brief = [
        at for at in leading if at <= 1 or (at <= sheet.text_columns and not sheet.columns[at - 1])
    ]
    found: list[_Block] = []
    rest = list(scores)
    while rest or not found:
        names = brief if found else leading
        for count in range(len(rest), -1, -1):
            block = _Block(sheet, [*names, *rest[:count]])
            if block.narrow(width) or count <= (1 if found else 0):
                break
        found.append(block)
        rest = rest[count:]
    return found


def _picked(line: Sequence[str], columns: Sequence[int]) -> SheetLine:
    return [_shown(line[at]) for at in columns]


def _numbered(section: Section) -> list[SheetLine]:
    """The lines of a section, each behind the last part of its row's address."""
    return [
        [number if first else "", *line]
        for row in section.rows
        for number, lines in [
            (row.address.rpartition(".")[2], row.lines)
            if isinstance(row, ScoreRow)
            else ("", [row])
        ]
        for first, line in zip([True, *[False] * len(lines)], lines, strict=False)
    ]


def _table(block: _Block, width: int, *, bold: bool) -> str:
    """The lines of a table: a heading, a rule, and the sections with an empty line between them.

    The words are wrapped by rich, and its tables are not used: a table of a thousand rows would
    take it several seconds.
    """
    parts = []
    for name, rows in block.sections:
        lines = _printed(name, width).splitlines() if name else []
        lines += [line for row in rows for line in _lines(row, block, bold=bold)]
        parts += ["".join(f"{line}\n" for line in lines)] if lines else []
    heading = [*_lines(block.heading, block, bold=False, at_top=False), "─" * block.total]
    return "\n".join(heading) + "\n" + "\n".join(parts)


def _lines(row: SheetLine, block: _Block, *, bold: bool, at_top: bool = True) -> list[str]:
    """The lines of a row. `at_top`: where a cell with fewer lines than others stands."""
    columns = []
    for index, (cell, width) in enumerate(zip(row, block.widths, strict=True)):
        side: JustifyMethod = "left" if index < block.texts else "right"
        strong = bold and isinstance(cell, Bold)
        columns.append(
            [_filled(part, width, side, strong=strong) for part in _wrapped(cell, width, side)]
        )
    height = max(map(len, columns))
    for parts, width in zip(columns, block.widths, strict=True):
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
