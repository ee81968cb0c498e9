"""A score against one hyperparameter, beside what a paper printed (DiffAug 4 and 5, DCPCSE 2)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.evaluation.catalogue import DISPLAY
from harness.report.figures.published_points import PublishedPoint
from harness.report.figures.style import (
    PALE,
    end_at_scores,
    look,
    number_ticks,
    panels,
)
from harness.report.groups import Group
from harness.report.matching import ALL_LABELS, Finder, Wanted

SCORE_LINES = pa.schema(
    [
        ("hyperparameter", pa.string()),
        ("metric", pa.string()),
        ("source", pa.string()),  # ours | paper
        ("at", pa.float64()),  # the value of the hyperparameter
        ("value", pa.float64()),  # mean; null where the paper names the place alone
        ("std", pa.float64()),  # sample standard deviation over seeds; null for one trial
        ("n", pa.int64()),  # trials; null for the paper
        ("note", pa.string()),  # what the paper says, or the keys of our trials
    ]
)


@dataclass(frozen=True)
class ScoreLine:
    """Which trials a figure compares, and by what."""

    method: str
    setting: str
    encoder: str
    configuration: Mapping[str, Any]
    """Hyperparameters that all trials have"""
    hyperparameter: str
    """The one that varies"""
    values: Sequence[int]
    metric: str
    """A dev or test metric"""
    defaults: Mapping[str, Any]
    """Hyperparameters that make another method of it; no trial has changed them"""

    def wanted(self, value: int) -> Wanted:
        """The trials with this value of the hyperparameter."""
        values = {**self.configuration, self.hyperparameter: value}
        return Wanted(
            self.method, self.setting, self.encoder, tuple(sorted(values.items())),
            tuple({**ALL_LABELS, **self.defaults}.items()),
        )  # fmt: skip


def found_groups(line: ScoreLine, groups: Iterable[Group]) -> dict[int, Group]:
    """Value of the hyperparameter -> the comparable trials that have it and the best mean dev."""
    finder = Finder(groups)
    found = {value: finder.find(line.wanted(value)) for value in line.values}
    return {value: each.group for value, each in found.items() if each is not None}


def score_line(
    line: ScoreLine, groups: Mapping[int, Group], points: Iterable[PublishedPoint]
) -> pa.Table:
    """The line of our trials, and the points of the paper (SCORE_LINES)."""
    rows: list[dict[str, Any]] = []
    for value, group in groups.items():
        cell = {**group.test, **group.dev}.get(line.metric)
        if cell is not None:
            keys = " ".join(key[:10] for key in group.keys)
            scores = {"value": cell.mean, "std": cell.std, "n": cell.n, "note": keys}
            rows.append({"source": "ours", "at": float(value), **scores})
    rows += [
        {"source": "paper", "at": point.at, "value": point.value, "note": point.note}
        for point in points
    ]
    common = {"hyperparameter": line.hyperparameter, "metric": line.metric}
    return pa.Table.from_pylist([common | row for row in rows], schema=SCORE_LINES)


def draw_score_lines(table: pa.Table) -> Figure:
    """A panel for each metric of a table of SCORE_LINES, one above the other."""
    rows = table.to_pylist()
    metrics = list(dict.fromkeys(row["metric"] for row in rows))
    named = ["ours: mean of the seeds, bars: their standard deviation", "value of the paper"]
    figure, axes = panels(len(metrics), columns=1, height=2.6, named=named, shown="both")
    for axis, metric in zip(axes, metrics, strict=True):
        _panel(axis, [row for row in rows if row["metric"] == metric])
        axis.set_ylabel(DISPLAY.get(metric, metric))
        axis.set_xlabel(rows[0]["hyperparameter"])
    return figure


def _panel(axis: Axes, rows: Sequence[Mapping[str, Any]]) -> None:
    ours = sorted((row for row in rows if row["source"] == "ours"), key=lambda row: row["at"])
    number_ticks(axis, [row["at"] for row in rows])
    mine, theirs = look(0), look(1)
    axis.errorbar(
        [row["at"] for row in ours],
        [row["value"] for row in ours],
        # A trial alone has no spread, and a bar of no length.
        yerr=[row["std"] or 0.0 for row in ours],
        capsize=3,
        **mine.both,
    )
    for row in (row for row in rows if row["source"] == "paper"):
        if row["value"] is None:
            axis.axvline(row["at"], color=PALE, linestyle=":")
        else:
            axis.plot(row["at"], row["value"], **theirs.points, markersize=8)
            axis.axhline(row["value"], linewidth=0.6, **theirs.line)
    axis.margins(x=0.05, y=0.15)
    end_at_scores(axis)
