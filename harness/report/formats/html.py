"""Sheets as HTML: tables for other pages, or one page that needs nothing else."""

from collections.abc import Sequence
from html import escape

from harness.errors import visible
from harness.report.formats.terminal import address_name
from harness.report.sheets.rows import Bold, ScoreRow, SheetLine
from harness.report.sheets.sheet import Section, Sheet

_STYLE = """\
:root { color-scheme: light dark; }
body { font-family: system-ui, sans-serif; margin: 2rem; line-height: 1.4; }
figure { margin: 0 0 3rem; overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding-bottom: 0.5rem; max-width: 60rem; }
th, td { padding: 0.15rem 0.6rem; text-align: right; white-space: nowrap; }
th { font-weight: normal; text-align: left; }
thead th { font-weight: bold; text-align: right; }
thead, tbody { border-bottom: 1px solid; }
thead th.text, td.text, tbody th { text-align: left; }
"""


def html_page(sheets: Sequence[Sheet]) -> str:
    """A page with the sheets, which opens from disk and asks for nothing else.

    What a terminal would obey or a reader not see is shown by its escape.
    """
    title = escape(sheets[0].title or "Results") if sheets else "Results"
    return visible(
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>\n{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"{''.join(map(html_table, sheets))}</main>\n</body>\n</html>\n"
    )


def html_table(sheet: Sheet) -> str:
    """A sheet as a `figure` with its table and notes. All text is escaped.

    A score has the attribute `data-cell`, the address by which `harness show` finds it.
    """
    parts = ["<figure>\n"]
    if sheet.columns:
        title = f"<strong>{escape(sheet.title)}</strong> " if sheet.title else ""
        caption = " ".join(filter(None, [sheet.caption, sheet.legend()]))
        headings = "".join(
            _heading(name, text=index < sheet.text_columns)
            for index, name in enumerate(sheet.columns)
        )
        parts += [
            f"<table>\n<caption>{title}{escape(caption)}</caption>\n",
            f"<thead>\n<tr>{headings}</tr>\n</thead>\n",
            *(_section(section, sheet) for section in sheet.sections),
            "</table>\n",
        ]
    notes = "".join(f"<li>{escape(note.strip())}</li>\n" for note in sheet.notes)
    return "".join([*parts, f"<ul>\n{notes}</ul>\n" if notes else "", "</figure>\n"])


def _heading(name: str, *, text: bool) -> str:
    kind = ' class="text"' if text else ""
    return f'<th scope="col"{kind}>{escape(name)}</th>' if name else "<td></td>"


def _section(section: Section, sheet: Sheet) -> str:
    heading = ""
    if section.name:
        width = len(sheet.columns)
        name = escape(section.name)
        heading = f'<tr><th scope="rowgroup" colspan="{width}"><em>{name}</em></th></tr>\n'
    rows = "".join(_row(row, sheet) for row in section.rows)
    return f"<tbody>\n{heading}{rows}</tbody>\n"


def _row(row: ScoreRow | SheetLine, sheet: Sheet) -> str:
    if not isinstance(row, ScoreRow):
        return _line(row, sheet.text_columns)
    addresses = [
        f"{row.address}.{address_name(metric)}" if cell.score and row.address else ""
        for metric, cell in zip(sheet.metrics, row.cells, strict=False)
    ]
    return "".join(
        _line(line, sheet.text_columns, addresses if index == row.score_line else ())
        for index, line in enumerate(row.lines)
    )


def _line(line: SheetLine, texts: int, addresses: Sequence[str] = ()) -> str:
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
