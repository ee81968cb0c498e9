"""A table ready to be rendered, and how its numbers are written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from harness.store import Reading
from harness.tables.aggregate import AVERAGE, Cell

DISPLAY: Mapping[str, str] = {
    **{f"sts{year}": f"STS{year}" for year in range(12, 17)},
    "stsb": "STS-B",
    "sickr": "SICK-R",
    AVERAGE: "Avg.",
    "stsb-dev": "STS-B dev",
}
"""Names of metrics as papers print them; the others are printed as they are."""

OVER_SUBSETS = "n = 5x3: 3 seeds on each of 5 random subsets of the labels, mean±std over all of them."
"""What a table says whose trials differ in the subset of the labels"""

CELL = (
    ("mean", pa.float64()),  # Spearman x100
    ("std", pa.float64()),  # sample standard deviation over the trials; null for one
    ("std_between_subsets", pa.float64()),  # its components, where several subsets of the labels were drawn
    ("std_within_subsets", pa.float64()),
    ("n", pa.int64()),
)
"""Columns of a cell in the machine-readable formats"""

Line = list[str]


@dataclass(frozen=True)
class Section:
    """Lines under one heading ("" for none)."""

    name: str
    lines: list[Line]


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


def score(cell: Cell | None) -> str:
    """`mean±std` with two decimals; no ± for one trial, nothing for no trial."""
    if cell is None:
        return ""
    return f"{cell.mean:.2f}" if cell.std is None else f"{cell.mean:.2f}±{cell.std:.2f}"


def component_lines(cells: Sequence[Cell | None]) -> list[tuple[str, list[str]]]:
    """What to write and the numbers under a line of scores: the components of each one's variance, where known."""
    known = [cell.components if cell else None for cell in cells]
    if not any(known):
        return []
    return [
        ("std between subsets", [f"{each.between:.2f}" if each else "" for each in known]),
        ("std within subsets", [f"{each.within:.2f}" if each else "" for each in known]),
    ]


def cell_record(cell: Cell | None) -> dict[str, float | int | None]:
    """A cell as the columns CELL of the machine-readable formats."""
    parts = cell.components if cell else None
    return {
        "mean": cell.mean if cell else None,
        "std": cell.std if cell else None,
        "std_between_subsets": parts.between if parts else None,
        "std_within_subsets": parts.within if parts else None,
        "n": cell.n if cell else 0,
    }


def percent(fraction: float | None) -> str:
    """`1 %`; nothing where there is no fraction."""
    return "" if fraction is None else f"{100 * fraction:g} %"


def difference(value: float | None) -> str:
    """A signed difference with two decimals; never `-0.00`."""
    return "" if value is None else f"{round(value, 2) + 0.0:+.2f}"


def key_list(keys: Sequence[str]) -> str:
    """Trial keys, short enough to read and long enough for `harness show`."""
    return " ".join(key[:12] for key in keys)


def unreadable_note(reading: Reading) -> list[str]:
    """Which files of the store are not in the table, and why."""
    if not reading.unreadable:
        return []
    files = "; ".join(f"{name} ({reason})" for name, reason in reading.unreadable)
    return [f"{counted(len(reading.unreadable), 'file')} of the store could not be read: {files}"]


def counted(number: int, noun: str) -> str:
    """`1 file`, `2 files`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
