"""What the configurations of a sweep cost, against their dev scores."""

import pyarrow as pa
from matplotlib.figure import Figure

from harness.report.figures.configurations import CONFIGURATIONS, configurations
from harness.report.figures.report_figure import ReportFigure
from harness.report.figures.style import (
    PALE,
    end_at_scores,
    log_ticks,
    look,
    panels,
    spans_decades,
)
from harness.report.figures.sweep_trials import SweepSearch

COSTS = pa.schema(
    [("search", pa.string()), *CONFIGURATIONS, ("front", pa.bool_())]
)  # front: whether no configuration that costs at most as much has a better dev score


def costs(searches: list[SweepSearch]) -> pa.Table:
    """One row for each configuration that has finished (COSTS), the cheapest first.

    Configurations that train nothing are left out.
    """
    rows = [
        {"search": search.label, **row}
        for search in searches
        for row in configurations(search).to_pylist()
        if row["seconds"] and not row["pruned"]
    ]
    rows.sort(key=lambda row: (row["seconds"], -row["dev"], row["search"], row["values"]))
    best = float("-inf")
    for row in rows:
        row["front"] = row["dev"] > best
        best = max(best, row["dev"])
    return pa.Table.from_pylist(rows, schema=COSTS)


def cost_figure(searches: list[SweepSearch], name: str) -> ReportFigure:
    """The figure of training seconds against dev."""
    table = costs(searches)
    devices = sorted({t.record.device for s in searches for t in s.trials if t.record.device})
    where = f" Devices: {', '.join(devices)}." if devices else ""
    return ReportFigure(
        name=f"{name}-cost",
        title="Cost against score",
        caption=f"Mean training seconds and mean dev score of {table.num_rows} configurations over "
        f"their seeds. The line goes through those that no cheaper one beats.{where}",
        table=table,
        draw=draw_costs,
    )


def draw_costs(table: pa.Table) -> Figure:
    """A point for each row of a table of COSTS, and the front as steps."""
    rows = table.to_pylist()
    searches = sorted({row["search"] for row in rows})
    figure, [axis] = panels(1, height=3.4, named=searches, shown="points")
    front = [row for row in rows if row["front"]]
    axis.step(
        [row["seconds"] for row in front],
        [row["dev"] for row in front],
        where="post",
        color=PALE,
        zorder=0,
    )
    for number, search in enumerate(searches):
        own = [row for row in rows if row["search"] == search]
        seconds, dev = ([row[name] for row in own] for name in ("seconds", "dev"))
        axis.plot(seconds, dev, **look(number).points)
    if spans_decades([row["seconds"] for row in rows]):
        axis.set_xscale("log")
        log_ticks(axis.xaxis)
    else:
        axis.set_xlim(left=0)
    axis.set_xlabel("training seconds")
    axis.set_ylabel("dev")
    end_at_scores(axis)
    return figure
