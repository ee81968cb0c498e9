"""A table ready to be rendered, and how its numbers are written."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from harness.report.groups import Cell

OVER_SUBSETS = (
    "n = 5x3: 3 seeds on each of 5 random subsets of the labels, mean±std over all of them."
)
"""What a table says whose trials differ in the subset of the labels"""

CELL_COLUMNS = (
    ("mean", pa.float64()),  # in the units of its suite: Spearman x100, accuracy x100, percent, ...
    ("std", pa.float64()),  # sample standard deviation over the trials; null for one
    (
        "std_between_subsets",
        pa.float64(),
    ),  # its components, where several subsets of the labels were drawn
    ("std_within_subsets", pa.float64()),
    ("n", pa.int64()),
    (
        "standard_error",
        pa.float64(),
    ),  # of one model's score: bootstrap over the test's items; null for n > 1
    ("low", pa.float64()),  # its interval
    ("high", pa.float64()),
)
"""Columns of a cell in the machine-readable formats"""

SheetLine = list[str]


@dataclass(frozen=True)
class Section:
    """Lines under one heading ("" for none)."""

    name: str
    lines: list[SheetLine]


@dataclass(frozen=True)
class Sheet:
    """A table as text (columns, sections) and as data (records, a row a cell). No columns: only notes."""

    title: str
    columns: Sequence[str]
    text_columns: int  # the leading columns that are text; the others are numbers
    sections: Sequence[Section]
    caption: str
    notes: Sequence[str]
    records: pa.Table = field(repr=False)


def score_text(cell: Cell | None, decimals: int = 2) -> str:
    """`mean±std`; no ± for one trial, nothing for no trial."""
    if cell is None:
        return ""
    spread = "" if cell.std is None else f"±{cell.std:.{decimals}f}"
    return f"{cell.mean:.{decimals}f}{spread}"


def component_lines(
    cells: Sequence[Cell | None], decimals: Sequence[int]
) -> list[tuple[str, list[str]]]:
    """What to write and the numbers under a line of scores: the components of each one's variance, where known."""
    known = [
        (cell.components if cell else None, f".{places}f")
        for cell, places in zip(cells, decimals, strict=True)
    ]
    if not any(each for each, _ in known):
        return []
    return [
        (
            "std between subsets",
            [format(each.between, places) if each else "" for each, places in known],
        ),
        (
            "std within subsets",
            [format(each.within, places) if each else "" for each, places in known],
        ),
    ]


def cell_record(cell: Cell | None) -> dict[str, float | int | None]:
    """A cell as the columns CELL_COLUMNS of the machine-readable formats."""
    parts, spread = (cell.components, cell.uncertainty) if cell else (None, None)
    return {
        "mean": cell.mean if cell else None,
        "std": cell.std if cell else None,
        "std_between_subsets": parts.between if parts else None,
        "std_within_subsets": parts.within if parts else None,
        "n": cell.n if cell else 0,
        "standard_error": spread.standard_error if spread else None,
        "low": spread.low if spread else None,
        "high": spread.high if spread else None,
    }


def percent_text(fraction: float | None) -> str:
    """`1 %`; nothing where there is no fraction."""
    return "" if fraction is None else f"{100 * fraction:g} %"


def difference_text(value: float | None, decimals: int = 2) -> str:
    """A signed difference; never `-0.00`."""
    return "" if value is None else f"{round(value, decimals) + 0.0:+.{decimals}f}"


def key_list(keys: Sequence[str]) -> str:
    """Trial keys, short enough to read and long enough for `harness show`."""
    return " ".join(key[:12] for key in keys)
