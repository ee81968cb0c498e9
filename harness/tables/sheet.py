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
