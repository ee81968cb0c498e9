"""Dev score of a search's configurations against each hyperparameter."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.report.figures.configurations import are_numbers, configurations, values_of
from harness.report.figures.report_figure import ReportFigure
from harness.report.figures.style import (
    COLOURS,
    PALE,
    end_at_scores,
    number_text,
    number_ticks,
    panels,
)
from harness.report.figures.sweep_trials import SweepSearch

_Row = Mapping[str, Any]


def hyperparameters_figure(search: SweepSearch) -> ReportFigure:
    """The figure of dev against each hyperparameter that the search varies."""
    table = configurations(search)
    several = max(table["n"].to_pylist(), default=1) > 1
    bars = " Bars: standard deviation over seeds and label subsets." if several else ""
    pruned = " Hollow: ended early by the search." if any(table["pruned"].to_pylist()) else ""
    return ReportFigure(
        name=f"{search.file_name}-hyperparameters",
        title=f"{search.label}: dev against each hyperparameter",
        caption=f"{search.metric} of {table.num_rows} configurations, each at its value of one "
        f"hyperparameter.{bars}{pruned} Line: mean over the configurations with the same value. "
        f"Star: the best configuration on dev.",
        table=table,
        draw=draw_hyperparameters,
    )


def draw_hyperparameters(table: pa.Table) -> Figure:
    """A panel for each hyperparameter of a table of CONFIGURATIONS."""
    rows = table.to_pylist()
    names = sorted({name for row in rows for name in values_of(row)})
    figure, axes = panels(len(names), columns=3)
    for axis, name in zip(axes, names, strict=True):
        _panel(axis, name, [row for row in rows if name in values_of(row)])
    for axis in axes[::3]:
        axis.set_ylabel("dev")
    return figure


def _panel(axis: Axes, name: str, rows: Sequence[_Row]) -> None:
    """`rows`: those that have the hyperparameter, the best one first."""
    values = [values_of(row)[name] for row in rows]
    if are_numbers(values):
        places = [float(value) for value in values]
        number_ticks(axis, places)
    else:
        known = sorted({number_text(value) for value in values})
        places = [float(known.index(number_text(value))) for value in values]
        axis.set_xticks(range(len(known)), known, rotation=25, ha="right")
    at: dict[float, list[float]] = defaultdict(list)
    for place, row in zip(places, rows, strict=True):
        at[place].append(row["dev"])
        colour = COLOURS[2]
        axis.errorbar(
            place,
            row["dev"],
            yerr=row["std"],
            marker="o",
            color=colour,
            markerfacecolor="none" if row["pruned"] else colour,
            linestyle="none",
            alpha=0.7,
        )
    if any(len(scores) > 1 for scores in at.values()):
        means = [(place, fmean(scores)) for place, scores in sorted(at.items())]
        axis.plot(*zip(*means, strict=True), color=PALE, linewidth=1.2, zorder=0)
    axis.plot(places[0], rows[0]["dev"], marker="*", markersize=11, color=COLOURS[1], zorder=4)
    axis.margins(x=0.12, y=0.1)
    axis.set_xlabel(name)
    end_at_scores(axis)
