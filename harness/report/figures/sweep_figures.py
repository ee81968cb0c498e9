"""The figures of a sweep: curves, dev by hyperparameter, parallel lines and cost.

They are made of what the store has, so a grid has them as well as a sampler.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from statistics import fmean
from typing import Any

from harness.report.figures.specification import (
    NAMED,
    Axis,
    Figure,
    Look,
    Mark,
    Panel,
    Row,
    are_numbers,
    axis,
    bar_ends,
    file_name,
    mark_of,
    round_values,
    score_axis,
    spans_decades,
    texts_of,
    value_axis,
)
from harness.report.figures.sweeps import SweepSearch, configurations
from harness.training.progress import GRADIENT_NORM

AVERAGED = 9
"""Kept steps of which a long curve shows the mean, because single batches differ much"""
FEW_POINTS = 12
"""A curve with fewer points has a marker at each"""

MOST_VALUES = 8
"""An axis of parallel coordinates with so many values has a label for each, at equal distances"""


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


def training_curves(search: SweepSearch) -> Sequence[Row]:
    """The points of the curves of all trials of a search, also of what a method watches.

    A `place` of 0 is the trial with the best dev score.
    The points are sorted by metric, then the best trial first. The dev score before training is the
    first point of a dev curve; a sum of losses is left out where its terms are there.
    """
    rows = []
    for rank, trial in enumerate(search.trials):
        points = trial.history
        first = next((point for point in points if point["metric"] == "dev"), None)
        if first is not None and trial.dev_before is not None:
            points = [{**first, "step": 0, "value": trial.dev_before}, *points]
        terms = any(point["metric"].startswith("loss/") for point in points)
        label = f"{search.trial_label(trial)} ({trial.role})"
        rows += [
            {"trial": label, "key": trial.key, "place": rank, **point}
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
            _curves_panel(metric, list(own), looks)
            for metric, own in groupby(rows, key=lambda row: row["metric"])
        ],
        legend=[labels[rank] for rank in sorted(labels)[:NAMED]],
    )


def _curves_panel(metric: str, rows: Sequence[Row], looks: Mapping[int, Look]) -> Panel:
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


def parallel_figure(search: SweepSearch) -> Figure:
    """A search's configurations as lines through dev and their values, in parallel coordinates."""
    rows = [row for row in configurations(search) if not row["pruned"]]
    names = ["dev", *_varied(rows)]
    lines: list[list[tuple[float, float]]] = [[] for _ in rows]
    labels = []
    for across, name in enumerate(names if rows else []):
        own = [n for n, row in enumerate(rows) if not across or name in row["values"]]
        values = [rows[n]["values"][name] if across else rows[n]["dev"] for n in own]
        places, ticks = _parallel_axis(values, every=across > 0)
        for number, height in zip(own, places, strict=True):
            lines[number].append((across, height))
        texts = [text for _, text in ticks]
        at = [height for height, _ in ticks]
        labels.append(Mark("text", [across] * len(at), at, texts=texts, side="left"))
    marks = [Mark("vertical", list(range(len(names))), [], "pale")]
    # The best ones are drawn last, on top of the others.
    for number, line in reversed([*enumerate(lines)]):
        look: Look = number if number < NAMED else "pale"
        x, y = ([point[part] for point in line] for part in (0, 1))
        marks.append(Mark("line", x, y, look, [rows[number]] * len(line)))
    panel = Panel(
        Axis("", -0.45, len(names) - 0.6, ticks=list(enumerate(names))),
        Axis("", -0.05, 1.05, ticks=()),
        [*marks, *labels],
        height=3.4,
    )
    return Figure(
        name=f"{search.file_name}-parallel",
        title=f"{search.label}: parallel coordinates",
        caption=f"Each line is one of {len(rows)} configurations, from its dev score on the "
        f"left ({search.metric}) through its values; the best ones are named.",
        rows=rows,
        panels=[panel] if rows else [],
        legend=[_configuration(row, names, search) for row in rows[:NAMED]],
        columns=1,
    )


def _configuration(row: Row, names: Sequence[str], search: SweepSearch) -> str:
    own = row["values"]
    values = search.words({name: own[name] for name in names if name in own})
    return f"dev {row['dev']:.2f}: {' '.join(values)}"


def _parallel_axis(
    values: Sequence[Any], *, every: bool
) -> tuple[list[float], list[tuple[float, str]]]:
    """The place of each value, 0 to 1, and the places of labels.

    every: with a label for each value, at equal distances, where they are texts or not too many.
    """
    numbers, shown = are_numbers(values), texts_of(values)
    if not numbers or (every and len(set(values)) <= MOST_VALUES):
        ordered = sorted(set(values)) if numbers else sorted(values, key=str)
        labels = list(dict.fromkeys(shown[str(value)] for value in ordered))
        last = len(labels) - 1
        at = {text: n / last if last else 0.5 for n, text in enumerate(labels)}
        places = [at[shown[str(value)]] for value in values]
        return places, [(at[text], text) for text in labels]
    log = every and spans_decades(values)
    scaled = math.log if log else float
    ends = min(values), max(values)
    low, high = map(scaled, ends)

    def place(value: float) -> float:
        return (scaled(value) - low) / (high - low) if high > low else 0.5

    named = round_values(*ends, log=log) or ends
    return [place(value) for value in values], [(place(each), f"{each:.5g}") for each in named]


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
    devices = sorted({t.device for s in searches for t in s.trials if t.device})
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
