"""Tables of results: rows of cells, each with our score and the number that a paper prints.

A table is made once and never changed. Its formats, the page, `harness show` and `--strict` are
functions of it.
"""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa

from harness.errors import counted
from harness.report.cells import BEST, Cell, difference_text
from harness.report.difference import paired_p_value
from harness.report.significance import Samples, best_cells

Line = list[str]
"""The cells of one line of a table, as text"""
BEST_NOTE = (
    "the best of its column among the rows that it is compared with, and what is not "
    "significantly worse (Welch over seeds, Holm over columns, 5 %)."
)
AGREES_NOTE = (
    "≈: the published number lies in the 95 % prediction interval of our seeds; ≠: it does not."
)


@dataclass(frozen=True)
class Row:
    """A row of scores: the names of its trials, n, and a cell for each column of scores.

    Beside a paper it has one name, and a second column of text says which line it is.
    """

    names: tuple[str, ...]
    n: str
    cells: tuple[Cell, ...]
    address: str
    """The word by which `harness show` finds the row, such as `3`; a cell is then `3.avg`"""
    complete: bool = True
    """Whether no test of the suite is missing; else the row is never the best"""
    block: tuple[str, ...] = ()
    """The rows with the same values here are ranked together"""
    published_n: str = ""
    """The number of runs behind the published numbers, where the paper says it"""
    without: str = ""
    """Why there can be no score of ours, such as `no method`"""
    whose: str = "ours"
    """The word at the line of the scores: `theirs` of a released checkpoint"""

    @property
    def compared(self) -> bool:
        """Whether it is a row of a paper."""
        return bool(self.cells) and self.cells[0].published is not None

    @property
    def score_line(self) -> int:
        """The line that has the scores."""
        return 1 if self.compared and not self.cells[0].alone else 0

    @cached_property
    def lines(self) -> list[Line]:
        """The scores; beside a paper, between the published values and the differences."""
        scores = [cell.text for cell in self.cells]
        if not self.compared:
            return [[*self.names, self.n, *scores]]
        if self.cells[0].alone:
            return [[*self.names, self.without or self.whose, self.n, *scores]]
        published = [cell.published_text for cell in self.cells]
        lines = [[*self.names, "published", self.published_n, *published]]
        if any(scores):
            lines.append(["", "ours", self.n, *scores])
            if any(differences := [cell.difference_text for cell in self.cells]):
                lines.append(["", "Δ", "", *differences])
        elif self.without:
            lines.append(["", self.without, "", *scores])
        return lines


@dataclass(frozen=True)
class Section:
    """The rows under one heading; the heading is "" where there is none.

    A row that is not of scores is a line of text.
    """

    name: str
    rows: Sequence[Row | Line]

    @cached_property
    def lines(self) -> list[Line]:
        """The rows as lines of text."""
        return [
            line for row in self.rows for line in (row.lines if isinstance(row, Row) else [row])
        ]


@dataclass(frozen=True)
class Table:
    """A table as sections of rows, and as data. One without columns has only notes."""

    title: str = ""
    columns: Sequence[str] = ()
    """The headings: of the text columns, of n, and of the columns of scores"""
    text_columns: int = 0  # the leading columns that are text; the others are numbers
    sections: Sequence[Section] = ()
    caption: str = ""
    notes: Sequence[str] = ()
    make_records: Callable[[], pa.Table] = field(default=lambda: pa.table({}), repr=False)
    metrics: Sequence[str] = ()
    """The name of each column of scores in the address of a cell, such as `avg`"""
    averages: Sequence[str] = ()
    """The metrics that stand first where a terminal is narrow"""
    show_options: Sequence[str] = ()
    """The words that `harness show` needs behind the address of a cell, such as --store FOLDER"""
    shortfalls: Sequence[str] = ()
    """Sentences about lines of text that are missing or differ; scores say so of themselves"""

    @property
    def rows(self) -> Iterator[Row]:
        """All rows of scores."""
        rows = (row for section in self.sections for row in section.rows)
        return (row for row in rows if isinstance(row, Row))

    def legend(self, *, bold: bool = True) -> str:
        """The meaning of the marks that the table has.

        `bold`: whether the format can show it; else its sign is explained.
        """
        scores = [cell for row in self.rows for cell in row.cells if cell.ours]
        shown = [
            (any(cell.best for cell in scores), f"{'Bold' if bold else BEST}: {BEST_NOTE}"),
            (any(cell.agrees is not None for cell in scores), AGREES_NOTE),
        ]
        return " ".join(note for is_shown, note in shown if is_shown)

    @cached_property
    def records(self) -> pa.Table:
        """The table as data, with one row per cell."""
        return self.make_records()


def ranked(rows: Sequence[Row], directions: Sequence[int], store: Path | str) -> list[Row]:
    """The rows with their best cells marked.

    directions: for each column 1 where higher is better, -1 where lower is, 0 where it is not
    ranked. Two models of one seed each are compared where `store` keeps their cosines. Incomplete
    rows and scores of another protocol are left out.
    """
    blocks: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        if row.complete:
            blocks[row.block].append(index)
    done = list(rows)
    for block in blocks.values():
        cells = [rows[index].cells for index in block]
        if not any(cell.ours for own in cells for cell in own):
            continue

        def paired(one: int, two: int, at: int, cells: list[tuple[Cell, ...]] = cells) -> float:
            metric, scores = cells[one][at].metric, (cells[one][at].ours, cells[two][at].ours)
            if metric is None:
                return math.nan
            of, alone = (metric.suite, metric.data), [score.trials[0] for score in scores if score]
            models = [(trial.key, trial.suites[of].test) for trial in alone]
            return paired_p_value(store, metric.suite, models, metric.name)

        columns = [_samples(column) for column in zip(*cells, strict=True)]
        best = best_cells(columns, directions, paired).tolist()
        for index, own, marks in zip(block, cells, best, strict=True):
            marked = (replace(cell, best=mark) for cell, mark in zip(own, marks, strict=True))
            done[index] = replace(rows[index], cells=tuple(marked))
    return done


def _samples(cells: Iterable[Cell]) -> Samples:
    """The scores of a column; those of another protocol are left out."""
    scores = [None if cell.is_foreign else cell.ours for cell in cells]
    std = [
        np.nan if score is None or (score.std is None and score.trained) else score.std or 0.0
        for score in scores
    ]
    return Samples(
        np.array([score.mean if score else np.nan for score in scores], float),
        np.array(std, float),
        np.array([score.n if score else 0 for score in scores], float),
    )


def failures(tables: Sequence[Table], tolerance: float | None) -> list[str]:
    """A text for each cell that is missing, or too far from the published number.

    tolerance: the largest difference, in points; None: the published number must lie within the
    spread of the seeds (`Cell.agrees`). Numbers that are only quoted do not count. A default must
    be the published one.
    """
    if not any(section.rows for table in tables for section in table.sections):
        return ["the table has no rows"]
    texts = []
    for table in tables:
        for row in table.rows:
            for metric, cell in zip(table.metrics, row.cells, strict=True):
                if cell.expected and (why := _failure(cell, tolerance)):
                    texts.append(f"{row.address}.{address_name(metric)} {why}")
        texts += table.shortfalls
    return texts


def _failure(cell: Cell, tolerance: float | None) -> str:
    """Why a cell fails; "" where it does not."""
    if cell.ours is None:
        return "is missing"
    if cell.is_foreign:
        return "was measured by another protocol"
    if cell.difference is None:
        return ""
    difference = f"differs by {difference_text(cell.difference, cell.decimals)}"
    if tolerance is not None:
        # The difference is judged as it is printed.
        too_far = abs(round(cell.difference, cell.decimals)) > tolerance
        return f"{difference}, more than {tolerance:g}" if too_far else ""
    if cell.agrees is None:
        return "has one seed and so no spread; more seeds or --tolerance would judge it"
    return "" if cell.agrees else f"{difference}, more than the spread of its seeds"


def address_name(metric: str) -> str:
    """The name of a column as it is typed: `avg` for `Avg.`, `avg-sts` for `Avg. STS`."""
    return metric.lower().replace(". ", " ").rstrip(".").replace(" ", "-")


def over_subsets(numbers: Iterable[str]) -> str:
    """The sentence under a table whose trials differ in the label subset.

    numbers: the n of its rows, of which the first one such as `5x3` is explained.
    """
    design = re.search(r"(\d+)x(\d+)", " ".join(numbers))
    whole = "random subsets of the labels, mean±std over all of them."
    if design is None:
        return f"n: trials on several {whole}"
    return f"n = {design[0]}: {counted(int(design[2]), 'seed')} on each of {design[1]} {whole}"


def n_text(numbers: Sequence[str]) -> str:
    """The numbers of trials of several columns, each once: `3, 5x3`."""
    return ", ".join(n for n in dict.fromkeys(numbers) if n != "0") or "0"
