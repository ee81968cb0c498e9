"""Finds the cell that an address names: `3.avg` of a store, `diffaug.6.3.avg` of a paper."""

import re
from collections.abc import Iterable, Sequence

from harness.errors import UserError, suggest
from harness.evaluation.catalogue import DISPLAY
from harness.report.formats.terminal import address_name
from harness.report.measured.groups import Cell, Group
from harness.report.sheets.rows import ScoreRow, SheetCell
from harness.report.sheets.sheet import Sheet
from harness.report.stores.named_metrics import meant, named_metrics


def store_cell(groups: Sequence[Group], row: int, metric: str) -> tuple[Group, str, Cell]:
    """The group of a row of the store's table, the metric that is meant, and its cell.

    Raises UserError where there is no such row, no such metric, or no score.
    """
    if not 1 <= row <= len(groups):
        raise UserError(
            f"there is no row {row}: the rows of `harness table` are 1 to {len(groups)}"
        )
    group = groups[row - 1]
    # What is unique in its row needs no name of a suite, and has one where the table needs one.
    scores = named_metrics(groups) | named_metrics([group])
    found = _named(metric, {name: DISPLAY.get(name, name) for name in scores})
    if found is None:
        raise UserError(f'row {row} has no score "{metric}"{meant(metric, scores)}')
    cell = scores[found].cell(group)
    if cell is None:
        raise UserError(f"row {row} has no score {found}: not all of its trials have it")
    return group, found, cell


def paper_cell(sheets: Iterable[Sheet], address: str) -> tuple[Sheet, ScoreRow, str, SheetCell]:
    """The cell of a published table, with its sheet, its row and the heading of its column.

    Raises UserError where there is no such row or column.
    """
    *parts, metric = address.split(".", 3)  # a heading may have points
    start = ".".join(parts)
    rows = {row.address: (sheet, row) for sheet in sheets for row in sheet.score_rows}
    if start not in rows:
        raise UserError(f'there is no row "{start}"{suggest(start, rows)}')
    sheet, row = rows[start]
    found = _named(metric, {name: name for name in sheet.metrics})
    if found is None:
        names = [address_name(name) for name in sheet.metrics]
        raise UserError(f'row {start} has no column "{metric}"{suggest(metric, names)}')
    return sheet, row, found, row.cells[list(sheet.metrics).index(found)]


def _named(typed: str, names: dict[str, str]) -> str | None:
    """The name that is meant: written as it is, or as its heading, in letters of any size."""
    by_heading = {_plain(heading): name for name, heading in reversed(names.items())}
    by_name = {_plain(name): name for name in names}
    return (by_heading | by_name).get(_plain(typed))


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())
