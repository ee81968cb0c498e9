"""All figures of a sweep, and why some cannot be drawn.

That of all searches together is here: cost against dev.
"""

from collections.abc import Sequence

from harness.report.figures.curves import curves_figure
from harness.report.figures.search_figures import (
    hyperparameters_figure,
    parallel_figure,
)
from harness.report.figures.specification import (
    Figure,
    Panel,
    Row,
    axis,
    file_name,
    mark_of,
    score_axis,
    spans_decades,
)
from harness.report.figures.sweeps import (
    SweepSearch,
    configurations,
)


def sweep_figures(searches: list[SweepSearch], sweep: str) -> tuple[list[Figure], list[str]]:
    """The figures of each search, then that of all; and sentences about what is not drawn.

    `sweep`: the name of the sweep, for the file of the figure of all searches.
    """
    made: list[Figure] = []
    notes: list[str] = []

    def keep(figure: Figure, lacking: str) -> None:
        """Keep a figure that has something to show, or else say why it has nothing."""
        if figure.panels:
            made.append(figure)
        else:
            notes.append(f"{lacking}, so {figure.name} is not drawn")

    for search in searches:
        keep(curves_figure(search), f"{search.label}: no trial has a history")
        if not search.names:
            notes.append(f"{search.label}: its search varies nothing")
            continue
        keep(hyperparameters_figure(search), f"{search.label}: no trial has a dev score")
        keep(parallel_figure(search), f"{search.label}: no configuration has finished")
    keep(cost_figure(searches, file_name(sweep)), "no trial has been trained")
    return made, notes


def costs(searches: list[SweepSearch]) -> Sequence[Row]:
    """The configurations that have finished, as `configurations` gives them, the cheapest first.

    `front`: whether none that costs at most as much has a better dev score. Configurations that
    train nothing are left out.
    """
    rows = [
        {"search": search.label, **row}
        for search in searches
        for row in configurations(search)
        if row["seconds"] and not row["pruned"]
    ]
    rows.sort(key=lambda row: (row["seconds"], -row["dev"], row["search"]))
    best = float("-inf")
    for row in rows:
        row["front"] = row["dev"] > best
        best = max(best, row["dev"])
    return rows


def cost_figure(searches: list[SweepSearch], name: str) -> Figure:
    """Training seconds against dev, and the front as steps."""
    rows = costs(searches)
    devices = sorted({t.record.device for s in searches for t in s.trials if t.record.device})
    where = f" Devices: {', '.join(devices)}." if devices else ""
    front = [row for row in rows if row["front"]]
    labels = sorted({row["search"] for row in rows})
    points = [
        mark_of("points", [row for row in rows if row["search"] == label], "seconds", "dev", look)
        for look, label in enumerate(labels)
    ]
    seconds = [row["seconds"] for row in rows]
    log = spans_decades(seconds)
    panel = Panel(
        axis("training seconds", seconds if log else [0, *seconds], least=0, log=log),
        score_axis("dev", [row["dev"] for row in rows]),
        [mark_of("step", front, "seconds", "dev", "pale"), *points],
        height=3.4,
    )
    return Figure(
        name=f"{name}-cost",
        title="Cost against score",
        caption=f"Mean training seconds and mean dev score of {len(rows)} configurations over "
        f"their seeds. The line goes through those that no cheaper one beats.{where}",
        rows=rows,
        panels=[panel] if rows else [],
        legend=labels,
    )
