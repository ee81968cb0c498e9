"""The curves of a search's trials: dev, each loss term, each learning rate, gradient norm.

What a method watches has curves, too.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from statistics import fmean

from harness.report.figures.specification import (
    NAMED,
    Figure,
    Look,
    Mark,
    Panel,
    Row,
    axis,
    mark_of,
    score_axis,
    spans_decades,
)
from harness.report.figures.sweeps import SweepSearch
from harness.training.progress import GRADIENT_NORM

AVERAGED = 9
"""Kept steps of which a long curve shows the mean, because single batches differ much"""
FEW_POINTS = 12
"""A curve with fewer points has a marker at each"""


def training_curves(search: SweepSearch) -> Sequence[Row]:
    """The points of the curves of all trials of a search, also of what a method watches.

    A `place` of 0 is the trial with the best dev score.
    The points are sorted by metric, then the best trial first. The dev score before training is the
    first point of a dev curve; a sum of losses is left out where its terms are there.
    """
    rows = []
    for rank, trial in enumerate(search.trials):
        points = trial.record.history
        first = next((point for point in points if point["metric"] == "dev"), None)
        if first is not None and trial.record.dev_before is not None:
            points = [{**first, "step": 0, "value": trial.record.dev_before}, *points]
        terms = any(point["metric"].startswith("loss/") for point in points)
        label = f"{trial.label} ({trial.record.role})"
        rows += [
            {"trial": label, "key": trial.record.key, "place": rank, **point}
            for point in points
            if (point["metric"] != "loss" or not terms) and math.isfinite(point["value"])
        ]
    rows.sort(key=lambda row: (*_order(row["metric"]), row["place"], row["stage"], row["step"]))
    return rows


def _order(metric: str) -> tuple[int, str]:
    kinds = ("dev", "loss", "rate", GRADIENT_NORM)
    kind = metric.partition("/")[0]
    return kinds.index(kind) if kind in kinds else len(kinds), metric


def curves_figure(search: SweepSearch) -> Figure:
    """The curves of a search: a panel for each metric, a line for each trial and stage."""
    rows = training_curves(search)
    labels = {row["place"]: row["trial"] for row in rows}
    looks: dict[int, Look] = dict.fromkeys(labels, "pale")
    looks |= {rank: number for number, rank in enumerate(sorted(labels)[:NAMED])}
    trials = "trial" if len(labels) == 1 else "trials"
    pale = " The others are pale." if len(labels) > NAMED else ""
    return Figure(
        name=f"{search.file_name}-curves",
        title=f"{search.label}: curves of {len(labels)} {trials}",
        caption=f"Dev ({search.metric}), losses without their weights, learning rates, norms of "
        f"all gradients before clipping, and what the method watches, by step of the whole trial; "
        f"dev at step 0 is before training. Long curves but dev are "
        f"means over {AVERAGED} kept steps. The trials with the best dev scores are named, the "
        f"best one first.{pale}",
        rows=rows,
        panels=[
            _panel(metric, list(own), looks)
            for metric, own in groupby(rows, key=lambda row: row["metric"])
        ],
        legend=[labels[rank] for rank in sorted(labels)[:NAMED]],
    )


def _panel(metric: str, rows: Sequence[Row], looks: Mapping[int, Look]) -> Panel:
    curves: list[list[Mark]] = []
    kind, _, name = metric.partition("/")
    for (rank, _), own in groupby(rows, key=lambda row: (row["place"], row["stage"])):
        points = list(own)
        line = mark_of("line", points, "step", "value", looks[rank])
        if kind not in ("dev", "rate"):
            steps, values = smoothed(line.x, line.y)
            first = (len(points) - len(steps)) // 2
            line = Mark("line", steps, values, line.look, points[first : first + len(steps)])
        few = len(points) < FEW_POINTS
        curves.append([line, Mark("points", line.x, line.y, line.look)] if few else [line])
    # The best ones are drawn last, on top of the others.
    marks = [mark for curve in reversed(curves) for mark in curve]
    values = [value for mark in marks for value in mark.y]
    if metric == "dev":
        y = score_axis("", values)
    else:
        log = metric == GRADIENT_NORM and spans_decades(values)
        y = axis("", values, least=0, log=log)
    titles = {"loss": f"loss {name}".strip(), "rate": name, GRADIENT_NORM: "gradient norm"}
    steps = [0, *(row["step"] for row in rows)]
    return Panel(axis("step", steps, least=0), y, marks, titles.get(kind, metric))


def smoothed(
    steps: Sequence[float], values: Sequence[float]
) -> tuple[Sequence[float], Sequence[float]]:
    """A long curve as means over AVERAGED points, at the middle of each."""
    if len(values) <= 4 * AVERAGED:
        return steps, values
    means = [fmean(values[start : start + AVERAGED]) for start in range(len(values) - AVERAGED + 1)]
    return steps[AVERAGED // 2 : -(AVERAGED // 2)], means
