"""Ranks the rows of a table: which cells are in bold, and which rows cannot be told apart."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from harness.report.cells import Cell
from harness.report.difference import paired_p_value
from harness.report.significance import Samples, best_cells, groups
from harness.report.tables import Row

MANY = 5
"""From so many rows on, a table shows groups of rows that cannot be told apart"""


def ranked(
    rows: Sequence[Row], directions: Sequence[int], average: int | None, store: Path | str
) -> list[Row]:
    """The rows with their best cells marked, and with their groups where they are many.

    directions: for each column 1 where higher is better, -1 where lower is, 0 where it is not
    ranked. average: the column by which rows are grouped; None: they are not. Two models of one
    seed each are compared where `store` keeps their cosines. Incomplete rows and scores of another
    protocol are left out.
    """
    blocks: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        if row.complete:
            blocks[row.block].append(index)
    done = list(rows)
    for block in blocks.values():
        own = [rows[index] for index in block]
        if not any(cell.ours for row in own for cell in row.cells):
            continue
        columns = [_samples([row.cells[at] for row in own]) for at in range(len(directions))]

        def paired(first: int, second: int, at: int, own: Sequence[Row] = own) -> float:
            return _paired_p_value(own[first].cells[at], own[second].cells[at], store)

        best = best_cells(columns, directions, paired)
        ranks = {} if average is None else _ranks(columns[average], directions[average])
        for at_row, (index, row) in enumerate(zip(block, own, strict=True)):
            cells = [
                replace(
                    cell,
                    best=bool(best[at_row, at]),
                    rank=ranks.get(at_row) if at == average else None,
                )
                for at, cell in enumerate(row.cells)
            ]
            done[index] = replace(row, cells=tuple(cells))
    return done


def _paired_p_value(first: Cell, second: Cell, store: Path | str) -> float:
    """The p-value of the paired bootstrap between two cells of a single seed each."""
    metric, one, two = first.metric, first.ours, second.ours
    if metric is None or one is None or two is None:
        return math.nan
    scores = (one.keys[0], one.mean), (two.keys[0], two.mean)
    return paired_p_value(store, metric.suite, scores, metric.name)


def _samples(cells: Sequence[Cell]) -> Samples:
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


def _ranks(column: Samples, direction: int) -> dict[int, int]:
    """Place of a row -> its group. Rows of a single seed are left out, as nothing is tested."""
    places = np.flatnonzero(~np.isnan(column.mean) & ~np.isnan(column.std))
    if len(places) < MANY or not direction:
        return {}
    return dict(zip(places.tolist(), groups(column[places], direction).tolist(), strict=True))
