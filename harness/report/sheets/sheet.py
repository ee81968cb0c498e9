"""A table as typed cells (sections of rows) and as data (records)."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from harness.report.measured.groups import Cell
from harness.report.sheets.rows import BEST, ScoreRow, SheetCell, SheetLine

OVER_SUBSETS = (
    "n = 5x3: 3 seeds on each of 5 random subsets of the labels, mean±std over all of them."
)
"""The sentence under a table whose trials differ in the label subset"""
BEST_NOTE = (
    "the best of its column among the rows that it is compared with, and what is not "
    "significantly worse (Welch over seeds, Holm over columns, 5 %)."
)
GROUP_NOTE = (
    "(1), (2): groups that differ significantly (Welch over seeds, Holm over pairs, 5 %); rows of "
    "one group cannot be told apart."
)
AGREES_NOTE = (
    "≈: the published number lies in the 95 % prediction interval of our seeds; ≠: it does not."
)

TRIALS = pa.list_(
    pa.struct(
        [
            ("key", pa.string()),
            ("seed", pa.int64()),
            ("subset", pa.int64()),
            ("value", pa.float64()),
        ]
    )
)
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
    (
        "best",
        pa.bool_(),
    ),  # bold: the best of its column, or not significantly worse; null: unranked
    ("trials", TRIALS),  # the score of each trial
)
"""The columns of a cell in CSV, which has no `trials`, in JSON and in Parquet"""


@dataclass(frozen=True)
class Section:
    """The rows under one heading; the heading is "" where there is none.

    A row that is not of scores is a line of text.
    """

    name: str
    rows: Sequence[ScoreRow | SheetLine]

    @cached_property
    def lines(self) -> list[SheetLine]:
        """The rows as lines of text."""
        return [
            line
            for row in self.rows
            for line in (row.lines if isinstance(row, ScoreRow) else [row])
        ]


@dataclass(frozen=True)
class Sheet:
    """A table as typed cells (sections) and as data (records).

    A sheet without columns has only notes.
    """

    title: str
    columns: Sequence[str]
    """The headings: of the text columns, of n, and of the columns of scores"""
    text_columns: int  # the leading columns that are text; the others are numbers
    sections: Sequence[Section]
    caption: str
    notes: Sequence[str]
    make_records: Callable[[], pa.Table] = field(repr=False)
    metrics: Sequence[str] = ()
    """The name of each column of scores in the address of a cell, such as `avg`"""
    averages: Sequence[str] = ()
    """The metrics that stand first where a terminal is narrow"""
    show_options: Sequence[str] = ()
    """What `harness show` needs behind the address of a cell: words such as --store FOLDER"""
    shortfalls: Sequence[str] = ()
    """What is missing or differs in lines of text; cells of scores say so of themselves"""

    @property
    def score_rows(self) -> Iterator[ScoreRow]:
        """All rows of scores."""
        rows = (row for section in self.sections for row in section.rows)
        return (row for row in rows if isinstance(row, ScoreRow))

    @property
    def cells(self) -> Iterator[SheetCell]:
        """All cells of scores."""
        return (cell for row in self.score_rows for cell in row.cells)

    def legend(self, *, bold: bool = True) -> str:
        """What the marks in the table mean, for those that it has.

        `bold`: whether the format can show it; else its sign is explained.
        """
        shown = [
            (any(cell.best for cell in self.cells), f"{'Bold' if bold else BEST}: {BEST_NOTE}"),
            (any(cell.group for cell in self.cells), GROUP_NOTE),
            (any(cell.agrees is not None for cell in self.cells), AGREES_NOTE),
        ]
        return " ".join(note for is_shown, note in shown if is_shown)

    @cached_property
    def records(self) -> pa.Table:
        """The table as data, with one row per cell."""
        return self.make_records()


def best_of(rows: Iterable[ScoreRow]) -> set[int]:
    """The scores that are the best of their columns, by the `id` of each."""
    return {id(cell.score) for row in rows for cell in row.cells if cell.best}


def cell_record(cell: Cell | None, best: Collection[int] | None) -> dict[str, Any]:
    """The values of CELL_COLUMNS for a cell. best: as `best_of`; None: nothing was ranked."""
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
        "best": None if best is None else id(cell) in best,
        "trials": _trials(cell) if cell else [],
    }


def _trials(cell: Cell) -> list[dict[str, Any]]:
    return [
        {"key": trial.key, "subset": trial.draw[0], "seed": trial.draw[1], "value": value}
        for trial, value in zip(cell.trials, cell.values, strict=True)
    ]


def percent_text(fraction: float | None) -> str:
    """A fraction as text, for example `1 %`; "" where there is none."""
    return "" if fraction is None else f"{100 * fraction:g} %"


def key_list(keys: Sequence[str]) -> str:
    """The first characters of the keys, which are enough for `harness show`."""
    return " ".join(key[:12] for key in keys)
