"""Renders tables as bytes: terminal, Markdown, LaTeX, CSV, JSON, Parquet; HTML for notebooks.

The same tables give the same bytes.
"""

import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness.errors import UserError, suggest, visible
from harness.report.cells import Bold
from harness.report.tables import Line, Row, Table, address_name
from harness.report.terminal import address_note, terminal_text

_BEGINNINGS = ("=", "+", "-", "@", "\t")
"""Beginnings of texts that a spreadsheet would compute"""


def csv_text(heading: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """The rows below their heading. A text that a spreadsheet would compute begins with `'`.

    Control characters other than line ends and tabs are shown by their escapes.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")  # its default is the line end of Windows
    writer.writerows([_csv_cell(value) for value in row] for row in (heading, *rows))
    return text.getvalue()


def _csv_cell(value: Any) -> Any:
    """A number as it is, also one that is written as a text; another text without a formula."""
    if not isinstance(value, str):
        return value
    text = visible(value)
    return f"'{text}" if text.startswith(_BEGINNINGS) and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


_SPECIAL = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "[": "{[}",  # after \\ it would open that command's optional argument
    "*": "{*}",  # after \\ it would be that command's star
    "±": r"$\pm$",
    "Δ": r"$\Delta$",
    "≈": r"$\approx$",
    "≠": r"$\neq$",
    "†": r"\textdagger{}",
}


def escape_latex(text: str) -> str:
    """The text with every special character of LaTeX escaped."""
    escaped = "".join(
        _SPECIAL.get(character, character) for character in visible(" ".join(text.split()))
    )
    return escaped.replace("--", "-{}-")  # an option's two hyphens, not a dash


def latex_text(table: Table) -> str:
    """A `table` environment with its caption above; only comments when the table has no columns."""
    if not table.columns:
        return "".join(f"% {' '.join(note.split())}\n" for note in table.notes)
    width = len(table.columns)
    columns = "l" * table.text_columns + "r" * (width - table.text_columns)
    title = f"{table.title}." if table.title else ""
    caption = " ".join(filter(None, [title, table.caption]))
    rows = []
    for section in table.sections:
        name = f"\\emph{{{escape_latex(section.name)}}}"
        heading = f"\\multicolumn{{{width}}}{{l}}{{{name}}} \\\\"
        rows += [r"\midrule", *([heading] if section.name else [])]
        rows += map(_latex_line, section.lines)
    notes = filter(None, [table.legend(), *table.notes])
    return "\n".join(
        [
            "% needs \\usepackage{booktabs}",
            r"\begin{table}",
            r"\centering",
            f"\\caption{{{escape_latex(caption)}}}",
            f"\\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            _latex_line(table.columns),
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
            *(f"\\par\\footnotesize {escape_latex(note)}" for note in notes),
            r"\end{table}",
            "",
        ]
    )


def _latex_line(cells: Iterable[str]) -> str:
    shown = (
        f"\\textbf{{{escape_latex(cell)}}}" if isinstance(cell, Bold) else escape_latex(cell)
        for cell in cells
    )
    return " & ".join(shown) + r" \\"


def html_table(table: Table) -> str:
    """A table as a `figure` with its table and notes. All text is escaped.

    What a terminal would obey or a reader not see is shown by its escape. A score has the attribute
    `data-cell`, the address by which `harness show` finds it.
    """
    parts = ["<figure>\n"]
    if table.columns:
        title = f"<strong>{escape(table.title)}</strong> " if table.title else ""
        caption = " ".join(filter(None, [table.caption, table.legend()]))
        headings = []
        for index, name in enumerate(table.columns):
            kind = ' class="text"' if index < table.text_columns else ""
            shown = f'<th scope="col"{kind}>{escape(name)}</th>' if name else "<td></td>"
            headings.append(shown)
        parts.append(f"<table>\n<caption>{title}{escape(caption)}</caption>\n")
        parts.append(f"<thead>\n<tr>{''.join(headings)}</tr>\n</thead>\n")
        group = f'<th scope="rowgroup" colspan="{len(table.columns)}">'
        for section in table.sections:
            name = f"<em>{escape(section.name)}</em>"
            heading = f"<tr>{group}{name}</th></tr>\n" if section.name else ""
            rows = "".join(_html_row(row, table) for row in section.rows)
            parts.append(f"<tbody>\n{heading}{rows}</tbody>\n")
        parts.append("</table>\n")
    notes = "".join(f"<li>{escape(note.strip())}</li>\n" for note in table.notes)
    return visible("".join([*parts, f"<ul>\n{notes}</ul>\n" if notes else "", "</figure>\n"]))


def _html_row(row: Row | Line, table: Table) -> str:
    if not isinstance(row, Row):
        return _html_line(row, table.text_columns)
    addresses = [
        f"{row.address}.{address_name(metric)}" if cell.ours and row.address else ""
        for metric, cell in zip(table.metrics, row.cells, strict=False)
    ]
    return "".join(
        _html_line(line, table.text_columns, addresses if index == row.score_line else ())
        for index, line in enumerate(row.lines)
    )


def _html_line(line: Line, texts: int, addresses: Sequence[str] = ()) -> str:
    """A row of the table. Its header is its first text that is not empty."""
    header = next((index for index in range(texts) if line[index]), None)
    cells = []
    for index, text in enumerate(line):
        shown = escape(text)
        if index == header:
            cells.append(f'<th scope="row">{shown}</th>')
        elif index < texts:
            cells.append(f'<td class="text">{shown}</td>')
        else:
            at = index - texts - 1  # n stands before the scores
            address = addresses[at] if 0 <= at < len(addresses) else ""
            named = f' data-cell="{escape(address)}"' if address else ""
            strong = f"<strong>{shown}</strong>" if isinstance(text, Bold) else shown
            cells.append(f"<td{named}>{strong}</td>")
    return f"<tr>{''.join(cells)}</tr>\n"


def rendered(tables: Sequence[Table], format: str, width: int, *, bold: bool = False) -> bytes:
    """The tables in one of the formats of `harness table --format`, one below the other.

    For the terminal only: `width`, the characters in a line, and `bold`, whether it can show it.
    Raises UserError for another format.
    """
    if format == "terminal":
        text = "\n".join(terminal_text(table, width, bold=bold) for table in tables)
        return (text + address_note(tables, width)).encode()
    if format not in _FORMATS:
        near = suggest(format, ("terminal", *_FORMATS))
        raise UserError(f'there is no format "{format}"{near}')
    return _FORMATS[format](tables)


def markdown_text(table: Table) -> str:
    """A table in the Markdown of GitHub; the headings of sections are rows."""
    blocks = [f"**{escaped(table.title)}**"] if table.title else []
    if table.columns:
        numbers = len(table.columns) - table.text_columns
        alignment = " | ".join([":--"] * table.text_columns + ["--:"] * numbers)
        lines = [_markdown_line(table.columns), f"| {alignment} |"]
        for section in table.sections:
            heading = [section.name, *[""] * (len(table.columns) - 1)]
            shown = [*([heading] if section.name else []), *section.lines]
            lines += map(_markdown_line, shown)
        blocks.append("\n".join(lines))
    blocks += [escaped(text) for text in (table.caption, table.legend(), *table.notes) if text]
    return "\n\n".join(blocks) + "\n"


def _markdown_line(cells: Sequence[str]) -> str:
    shown = (f"**{escaped(cell)}**" if isinstance(cell, Bold) else escaped(cell) for cell in cells)
    return f"| {' | '.join(shown)} |"


def escaped(text: str) -> str:
    """The text on one line, with the special characters of Markdown and HTML escaped."""
    return re.sub(r"([\\|*_`<>&~\[\]])", r"\\\1", visible(" ".join(text.split())))


def _csv(tables: Sequence[Table]) -> bytes:
    records = _records(tables).drop_columns("trials")  # a list has no place in a line of CSV
    rows = zip(*(column.to_pylist() for column in records.columns), strict=True)
    return csv_text(records.column_names, rows).encode()


def _json(tables: Sequence[Table]) -> bytes:
    """A list of tables: each has its title, caption, notes and records, one for each cell."""
    contents = [
        {
            "title": table.title,
            "caption": table.caption,
            "notes": list(table.notes),
            "records": [_plain(row) for row in table.records.to_pylist()],
        }
        for table in tables
    ]
    text = json.dumps(contents, ensure_ascii=False, indent=1, allow_nan=False)
    # What a terminal would obey or hide is escaped as JSON can, so the value stays the same.
    shown = (
        char if char == "\n" or char.isprintable() else json.dumps(char)[1:-1] for char in text
    )
    return f"{''.join(shown)}\n".encode()


def _plain(value: Any) -> Any:
    """A value as JSON can hold it: what is not a finite number is null."""
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _parquet(tables: Sequence[Table]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(_records(tables), sink)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _records(tables: Sequence[Table]) -> pa.Table:
    return pa.concat_tables([table.records for table in tables])


_FORMATS: Mapping[str, Callable[[Sequence[Table]], bytes]] = {
    "markdown": lambda tables: "\n".join(map(markdown_text, tables)).encode(),
    "csv": _csv,
    "latex": lambda tables: "\n".join(map(latex_text, tables)).encode(),
    "json": _json,
    "parquet": _parquet,
}
