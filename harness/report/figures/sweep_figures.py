"""The figures of a sweep: dev by hyperparameter, and cost; and why some are not drawn.

They are made of what the store has, so a grid has them as well as a sampler.
"""

from collections.abc import Sequence
from statistics import fmean

from harness.report.figures.curves import curves_figure
from harness.report.figures.specification import (
    Figure,
    Mark,
    Panel,
    Row,
    axis,
    bar_ends,
    file_name,
    mark_of,
    score_axis,
    spans_decades,
    value_axis,
)
from harness.report.figures.sweeps import SweepSearch, configurations


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

    keep(cost_figure(searches, file_name(sweep)), "no trial has been trained")
    return made, notes


def hyperparameters_figure(search: SweepSearch) -> Figure:
    """The dev score of a search's configurations against each hyperparameter that it varies."""
    rows = configurations(search)
    several = any(row["n"] > 1 for row in rows)
    bars = " Bars: standard deviation over seeds and label subsets." if several else ""
    pruned = " Hollow: ended early by the search." if any(row["pruned"] for row in rows) else ""
    return Figure(
        name=f"{search.file_name}-hyperparameters",
        title=f"{search.label}: dev against each hyperparameter",
        caption=f"{search.metric} of {len(rows)} configurations, each at its value of one "
        f"hyperparameter.{bars}{pruned} Line: mean over the configurations with the same value. "
        f"Star: the best configuration on dev.",
        rows=rows,
        panels=[_hyperparameter_panel(name, rows) for name in _varied(rows)],
        columns=3,
    )


def _varied(rows: Sequence[Row]) -> list[str]:
    """The hyperparameters with several values in these configurations; of one, all that it has."""
    names = sorted({name for row in rows for name in row["values"]})
    values = {name: {str(row["values"].get(name)) for row in rows} - {"None"} for name in names}
    return [name for name in names if len(values[name]) > 1] or names


def _hyperparameter_panel(name: str, rows: Sequence[Row]) -> Panel:
    """`rows`: the configurations, the best one first."""
    own = [row for row in rows if name in row["values"]]
    x, places = value_axis(name, [row["values"][name] for row in own], width=24)
    means = {
        at: fmean(row["dev"] for row, value in zip(own, places, strict=True) if value == at)
        for at in sorted(set(places))
    }
    marks = [Mark("line", [*means], [*means.values()], "pale")] if len(means) < len(own) else []
    for pruned in (True, False):
        chosen = [(at, row) for at, row in zip(places, own, strict=True) if row["pruned"] == pruned]
        at, shown = [at for at, _ in chosen], [row for _, row in chosen]
        dev, spread = [row["dev"] for row in shown], [row["std"] for row in shown]
        marks.append(Mark("points", at, dev, 0, shown, spread, hollow=pruned))
    if own[0] is rows[0]:
        marks.append(Mark("points", places[:1], [own[0]["dev"]], "best"))
    return Panel(x, score_axis("dev", bar_ends(marks)), marks)


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
