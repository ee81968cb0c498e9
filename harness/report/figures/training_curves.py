"""The curves of a search's trials: dev, each loss term, each learning rate, gradient norm."""

import math
from collections.abc import Iterable, Mapping
from itertools import groupby
from statistics import fmean
from typing import Any

import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.report.figures.report_figure import ReportFigure
from harness.report.figures.style import (
    PALE,
    end_at,
    end_at_scores,
    log_ticks,
    look,
    panels,
    plain_numbers,
    spans_decades,
)
from harness.report.figures.sweep_trials import SweepSearch
from harness.training.progress import GRADIENT_NORM

CURVES = pa.schema(
    [
        ("trial", pa.string()),
        ("key", pa.string()),
        ("role", pa.string()),
        ("place", pa.int64()),  # 0 is the trial with the best dev score
        ("stage", pa.string()),
        ("metric", pa.string()),
        ("step", pa.int64()),
        ("value", pa.float64()),
    ]
)
NAMED = 5
"""So many trials have a line of their own look; the others are pale"""
AVERAGED = 9
"""Kept steps of which a long curve shows the mean, because single batches differ much"""
_Row = Mapping[str, Any]


def training_curves(search: SweepSearch) -> pa.Table:
    """The curves of all trials of a search (CURVES), also of what a method watches.

    The dev score before training is the first point of a dev curve.
    """
    rows = []
    for place, trial in enumerate(search.trials):
        known = {
            "trial": f"{trial.label} ({trial.record.role})",
            "key": trial.record.key,
            "role": trial.record.role,
            "place": place,
        }
        points = trial.record.history
        first = next((point for point in points if point["metric"] == "dev"), None)
        if first is not None and trial.record.dev_before is not None:
            points = [{**first, "step": 0, "value": trial.record.dev_before}, *points]
        terms = any(point["metric"].startswith("loss/") for point in points)
        rows += [known | dict(each) for each in points if _is_drawn(each["metric"], terms=terms)]
    return pa.Table.from_pylist(rows, schema=CURVES)


def _is_drawn(metric: str, *, terms: bool) -> bool:
    """`terms`: whether there are loss terms, which say more than their sum."""
    return metric != "loss" or not terms


def curves_figure(search: SweepSearch) -> ReportFigure:
    """The figure of the curves of a search."""
    table = training_curves(search)
    trials = len(set(table["key"].to_pylist()))
    pale = " The others are pale." if trials > NAMED else ""
    return ReportFigure(
        name=f"{search.file_name}-curves",
        title=f"{search.label}: curves of {trials} trials",
        caption=f"Dev ({search.metric}), losses without their weights, learning rates, norms of "
        f"all gradients before clipping, and what the method watches, by step of the whole trial; "
        f"dev at step 0 is before training. Long curves but dev are "
        f"means over {AVERAGED} kept steps. The trials with the best dev scores are named, the "
        f"best one first.{pale}",
        table=table,
        draw=draw_curves,
    )


def draw_curves(table: pa.Table) -> Figure:
    """A panel for each metric, a line for each trial and stage."""
    rows = table.to_pylist()
    metrics = sorted({row["metric"] for row in rows}, key=_order)
    named = [label for _, label in sorted({(row["place"], row["trial"]) for row in rows})[:NAMED]]
    figure, axes = panels(len(metrics), named=named)
    for axis, metric in zip(axes, metrics, strict=True):
        _panel(axis, metric, [row for row in rows if row["metric"] == metric])
    return figure


def smoothed(steps: list[int], values: list[float]) -> tuple[list[int], list[float]]:
    """A long curve as means over AVERAGED points, at the middle of each."""
    if len(values) <= 4 * AVERAGED:
        return steps, values
    means = [fmean(values[start : start + AVERAGED]) for start in range(len(values) - AVERAGED + 1)]
    return steps[AVERAGED // 2 : -(AVERAGED // 2)], means


def _order(metric: str) -> tuple[int, str]:
    kinds = ("dev", "loss", "rate", GRADIENT_NORM)
    kind = metric.partition("/")[0]
    return kinds.index(kind) if kind in kinds else len(kinds), metric


def _panel(axis: Axes, metric: str, rows: Iterable[_Row]) -> None:
    # The best ones are drawn last, on top of the others.
    ordered = sorted(rows, key=lambda row: (-row["place"], row["stage"], row["step"]))
    finite = [row for row in ordered if math.isfinite(row["value"])]
    for (place, _), curve in groupby(finite, key=lambda row: (row["place"], row["stage"])):
        points = list(curve)
        pale = {"color": PALE, "linewidth": 0.6}
        steps, values = ([row[name] for row in points] for name in ("step", "value"))
        if metric != "dev" and not metric.startswith("rate/"):
            steps, values = smoothed(steps, values)
        axis.plot(
            steps,
            values,
            marker="." if len(points) < 12 else None,
            **(look(place).line if place < NAMED else pale),
        )
    kind, _, name = metric.partition("/")
    title = {"loss": f"loss {name}".strip(), "rate": name, GRADIENT_NORM: "gradient norm"}
    axis.set_title(title.get(kind, kind))
    axis.set_xlabel("step")
    axis.set_xlim(left=0)
    plain_numbers(axis.yaxis)
    values = [row["value"] for row in finite]
    if metric == "dev":
        end_at_scores(axis)
    elif metric == GRADIENT_NORM and spans_decades(values):
        axis.set_yscale("log")
        log_ticks(axis.yaxis)
    elif values and min(values) >= 0:
        end_at(axis, low=0)
