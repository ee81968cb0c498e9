"""Ranks the rows of a table: which cells are in bold."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from harness.report.cells import Cell
from harness.report.difference import paired_p_value
from harness.report.significance import Samples, best_cells
from harness.report.tables import Row


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
        own = [rows[index] for index in block]
        if not any(cell.ours for row in own for cell in row.cells):
            continue
        columns = [_samples([row.cells[at] for row in own]) for at in range(len(directions))]

        def paired(first: int, second: int, at: int, own: Sequence[Row] = own) -> float:
            return _paired_p_value(own[first].cells[at], own[second].cells[at], store)

        best = best_cells(columns, directions, paired).tolist()
        for index, row, marks in zip(block, own, best, strict=True):
            cells = zip(row.cells, marks, strict=True)
            marked = tuple(replace(cell, best=is_best) for cell, is_best in cells)
            done[index] = replace(row, cells=marked)
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
