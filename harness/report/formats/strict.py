"""What keeps a table from being complete and reproduced: missing cells, and cells that differ."""

from collections.abc import Iterator, Sequence
from itertools import chain

from harness.report.formats.terminal import address_name
from harness.report.sheets.rows import ScoreRow, SheetCell, difference_text
from harness.report.sheets.sheet import Sheet


def failures(sheets: Sequence[Sheet], tolerance: float | None) -> list[str]:
    """A text for each cell that is missing, or too far from the published number.

    tolerance: the largest difference, in points; None: the published number must lie within the
    spread of the seeds (`SheetCell.agrees`). Numbers that are only quoted do not count. A default
    must be the published one.
    """
    if not any(section.rows for sheet in sheets for section in sheet.sections):
        return ["the table has no rows"]
    return list(chain.from_iterable(_of_sheet(sheet, tolerance) for sheet in sheets))


def _of_sheet(sheet: Sheet, tolerance: float | None) -> Iterator[str]:
    for row in sheet.score_rows:
        for metric, why in _failures(sheet, row, tolerance):
            yield f"{row.address}.{address_name(metric)} {why}"
    yield from sheet.shortfalls


def _failures(sheet: Sheet, row: ScoreRow, tolerance: float | None) -> Iterator[tuple[str, str]]:
    for metric, cell in zip(sheet.metrics, row.cells, strict=True):
        why = _failure(cell, tolerance) if cell.expected else ""
        if why:
            yield metric, why


def _failure(cell: SheetCell, tolerance: float | None) -> str:
    """Why a cell fails; "" where it does not."""
    if cell.score is None:
        return "is missing"
    if not cell.comparable:
        return "was measured by another protocol"
    if cell.delta is None:
        return ""
    difference = f"differs by {difference_text(cell.delta, cell.decimals)}"
    if tolerance is not None:
        # The difference is judged as it is printed.
        too_far = abs(round(cell.delta, cell.decimals)) > tolerance
        return f"{difference}, more than {tolerance:g}" if too_far else ""
    if cell.agrees is None:
        return "has one seed and so no spread; more seeds or --tolerance would judge it"
    return "" if cell.agrees else f"{difference}, more than the spread of its seeds"
