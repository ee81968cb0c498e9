"""A table that can be rendered in any format, and the text of its numbers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from harness.report.groups import Cell

OVER_SUBSETS = (
    "n = 5x3: 3 seeds on each of 5 random subsets of the labels, mean±std over all of them."
)
"""The sentence under a table whose trials differ in the label subset"""

CELL_COLUMNS = (
    ("mean", pa.float64()),  # in the units of its suite: Spearman x100, accuracy x100, percent, ...
    ("std", pa.float64()),  # sample standard deviation over the trials; null for one
    # The components of the standard deviation, where there are several label subsets.
    ("std_between_subsets", pa.float64()),
    ("std_within_subsets", pa.float64()),
    ("n", pa.int64()),
    # The uncertainty of the score of one model, by bootstrap over the items; null for n > 1.
    ("standard_error", pa.float64()),
    ("low", pa.float64()),
    ("high", pa.float64()),
)
"""The columns of a cell in CSV and Parquet"""

SheetLine = list[str]
"""The cells of one line of a table, as text"""


@dataclass(frozen=True)
class Section:
    """The lines under one heading; the heading is "" where there is none."""

    name: str
    lines: list[SheetLine]


@dataclass(frozen=True)
class Sheet:
    """A table as text (columns and sections) and as data (records).

    A sheet without columns has only notes.
    """

    title: str
    columns: Sequence[str]
    text_columns: int  # the leading columns that are text; the others are numbers
    sections: Sequence[Section]
    caption: str
    notes: Sequence[str]
    make_records: Callable[[], pa.Table] = field(repr=False)

    @cached_property
    def records(self) -> pa.Table:
        """The table as data, with one row per cell; only CSV and Parquet ask for it."""
        return self.make_records()


def score_text(cell: Cell | None, decimals: int = 2) -> str:
    """`mean±std`; the mean alone for one trial, and "" for no trial."""
    if cell is None:
        return ""
    spread = "" if cell.std is None else f"±{cell.std:.{decimals}f}"
    return f"{cell.mean:.{decimals}f}{spread}"


def component_lines(
    cells: Sequence[Cell | None], decimals: Sequence[int]
) -> list[tuple[str, list[str]]]:
    """The lines of the components of the variance, which stand under a line of scores.

    Each line is its name and its numbers. There are none when no cell has components.
    """
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
    """The values of CELL_COLUMNS for a cell."""
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
    """A fraction as text, for example `1 %`; "" where there is none."""
    return "" if fraction is None else f"{100 * fraction:g} %"


def difference_text(value: float | None, decimals: int = 2) -> str:
    """A difference with its sign, and never `-0.00`; "" where there is none."""
    # Adding 0.0 turns -0.0 into 0.0.
    return "" if value is None else f"{round(value, decimals) + 0.0:+.{decimals}f}"


def key_list(keys: Sequence[str]) -> str:
    """The first characters of the keys, which are enough for `harness show`."""
    return " ".join(key[:12] for key in keys)
