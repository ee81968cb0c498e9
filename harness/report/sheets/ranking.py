"""Ranks the rows of a table: which cells are in bold, and which rows cannot be told apart."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from harness.evaluation.catalogue import Metric
from harness.report.sheets.rows import ScoreRow, SheetCell
from harness.report.statistics.paired import paired_p_value
from harness.report.statistics.significance import Samples, best_cells, groups

MANY = 5
"""From so many rows on, a table shows groups of rows that cannot be told apart"""

_Row = TypeVar("_Row", bound=ScoreRow)


def ranked(
    rows: Sequence[_Row],
    directions: Sequence[int],
    average: int | None,
    metrics: Sequence[Metric | None],
    store: Path | str,
) -> list[_Row]:
    """The rows with their best cells marked, and with their groups where they are many.

    directions: for each column 1 where higher is better, -1 where lower is, 0 where it is not
    ranked. average: the column by which rows are grouped; None: they are not. metrics: the metric
    of each column, by which two models of one seed each are compared where `store` keeps their
    cosines. Incomplete rows and scores that cannot be compared are left out.
    """
    blocks: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        if row.complete:
            blocks[row.block].append(index)
    found = list(rows)
    for block in blocks.values():
        columns = [
            _samples([rows[index].cells[at] for index in block]) for at in range(len(directions))
        ]
        best = best_cells(
            columns, directions, _PairedTest([rows[at] for at in block], metrics, store)
        )
        grouped = _groups(columns[average], directions[average]) if average is not None else {}
        for place, index in enumerate(block):
            cells = [
                replace(cell, best=True) if mark else cell
                for cell, mark in zip(rows[index].cells, best[place], strict=True)
            ]
            if average is not None and place in grouped:
                cells[average] = replace(cells[average], group=grouped[place])
            found[index] = replace(rows[index], cells=tuple(cells))
    return found


@dataclass(frozen=True)
class _PairedTest:
    """The paired bootstrap between two rows of a single seed each."""

    rows: Sequence[ScoreRow]
    metrics: Sequence[Metric | None]
    store: Path | str

    def __call__(self, first: int, second: int, column: int) -> float:
        metric = self.metrics[column]
        one, two = (self.rows[row].cells[column].score for row in (first, second))
        if metric is None or one is None or two is None:
            return math.nan
        scores = (one.keys[0], one.mean), (two.keys[0], two.mean)
        return paired_p_value(self.store, metric.suite, scores, metric.name)


def _samples(cells: Sequence[SheetCell]) -> Samples:
    scores = [cell.score if cell.comparable else None for cell in cells]
    std = [
        np.nan if score is None or (score.std is None and score.trained) else score.std or 0.0
        for score in scores
    ]
    return Samples(
        np.array([score.mean if score else np.nan for score in scores], float),
        np.array(std, float),
        np.array([score.n if score else 0 for score in scores], float),
    )


def _groups(column: Samples, direction: int) -> dict[int, int]:
    """Place of a row -> its group. Rows of a single seed are left out, as nothing is tested."""
    places = np.flatnonzero(~np.isnan(column.mean) & ~np.isnan(column.std))
    if len(places) < MANY or not direction:
        return {}
    return dict(zip(places.tolist(), groups(column[places], direction).tolist(), strict=True))
