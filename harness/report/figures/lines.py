"""Curves of scores along a hyperparameter: of the papers' figures, and of tables of one's own."""

import functools
import statistics
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import yaml

from harness import PROTOCOL
from harness.evaluation.catalogue import DISPLAY
from harness.report.cells import Cell
from harness.report.figures.specification import (
    NAMED,
    Figure,
    Look,
    Mark,
    Panel,
    Row,
    axis,
    bar_ends,
    mark_of,
    number_text,
    score_axis,
    value_axis,
)
from harness.report.groups import Group
from harness.report.matching import Wanted, command
from harness.report.paper import TableFigure, load_systems
from harness.report.paper_cells import PaperTable
from harness.report.published import folder
from harness.trials.record import Record
from harness.trials.store import Store

ON_BERT = "bert-base-uncased"
"""The encoder of all figures in the papers"""
AXES = {"stage1_steps": "steps of stage 1", "prompt_length": "prompt length"}
"""Hyperparameter -> its words along an axis"""
CROSS_ENTROPY = "cross entropy of stage 1"
DrawnAndLacking = tuple[list[Figure], list[str]]
"""The figures, and sentences about what the store lacks"""


@functools.cache
def published_points(paper: str, figure: str) -> tuple[Row, ...]:
    """The points of a figure, `figure5` or `figure3a`; none where the text has none.

    Of each: `at`, its place on the horizontal axis; `value`, None where the text says something of
    the place alone; `note`, the words of the text, or the source of the value.
    """
    content = yaml.safe_load((folder() / f"{paper}.yaml").read_text(encoding="utf-8"))
    points = content["figures"][figure].get("points") or ()
    own = {"value", "note", "source"}
    return tuple(
        {
            "at": next(float(value) for name, value in point.items() if name not in own),
            "value": point.get("value"),
            "note": point.get("note") or point.get("source") or "",
        }
        for point in points
    )


def line_figure(
    name: str, matches: Sequence[tuple[Wanted, Group | None]], store: Store
) -> DrawnAndLacking:
    """The figure `<paper>-<figure>` of a paper. matches: the trials of each value of its axis."""
    paper, _, number = name.partition("-")
    drawn, points = load_systems().figures[f"{paper}.{number}"], published_points(paper, number)
    [(hyperparameter, values)] = drawn.axis.items()
    wanted, metric = matches[0][0], str(drawn.metric)
    groups = {
        float(value): group
        for value, (_, group) in zip(values, matches, strict=True)
        if group is not None
    }
    rows = score_line(metric, groups, points)
    if name == "diffaug-figure5":
        rows += cross_entropies(groups, store)
    rows = [{"hyperparameter": hyperparameter, **row} for row in rows]
    ours = [row["at"] for row in rows if row["source"] == "ours"]
    lacking = [str(value) for value in values if value not in ours]
    notes = []
    if lacking:
        of = f"{hyperparameter} {', '.join(lacking)} of {wanted.method} on {wanted.encoder}"
        notes.append(f"the store lacks {of}; run: {sweep_command(name, wanted.encoder, store)}")
    if not ours:
        return [], notes  # an empty axis says less than the note
    notes += drawn_all_the_same(groups.values())
    words = "; ".join(f"at {point['at']:g}: {point['note']}" for point in points)
    counts = sorted({row["n"] for row in rows if row["n"] is not None})
    figure = Figure(
        name=file_of(name, wanted.encoder),
        title=f"{paper}, Figure {number.removeprefix('figure')}: {wanted.method} on "
        f"{wanted.encoder}, {hyperparameter}",
        caption=f"{DISPLAY.get(metric, metric)} x100, mean over the seeds; bars: "
        f"sample standard deviation over the seeds (n = {', '.join(map(str, counts))}). Of several "
        f"configurations with one {hyperparameter} the one with the best dev mean is "
        f"shown. The plotted points of the paper are not in its text, which says: {words}.",
        rows=rows,
        panels=[
            _score_panel(metric, rows) for metric in dict.fromkeys(row["metric"] for row in rows)
        ],
        legend=["ours: mean of the seeds, bars: their standard deviation", "value of the paper"],
        columns=1,
    )
    return [figure], notes


def _score_panel(metric: str, rows: Sequence[Row]) -> Panel:
    """`rows`: of this metric and others."""
    own = [row for row in rows if row["metric"] == metric]
    ours = sorted((row for row in own if row["source"] == "ours"), key=lambda row: row["at"])
    told = [row for row in own if row["source"] == "paper" and row["value"] is not None]
    places = [row["at"] for row in own if row["value"] is None]
    line, means = _curve(ours, 0)
    theirs = mark_of("points", told, "at", "value", 1)
    label, ends = DISPLAY.get(metric, metric), bar_ends([means, theirs])
    scores = score_axis(label, ends, 0.15)
    return Panel(
        value_axis(AXES[own[0]["hyperparameter"]], [row["at"] for row in own], width=80)[0],
        axis(label, ends, least=0, margin=0.15) if metric == CROSS_ENTROPY else scores,
        [
            Mark("vertical", places, [], "pale"),
            Mark("horizontal", [], theirs.y, 1),
            line,
            means,
            theirs,
        ],
        height=2.6,
    )


def _curve(ours: Sequence[Row], look: Look) -> tuple[Mark, Mark]:
    """A line through our means, and points with their standard deviations."""
    means = replace(mark_of("points", ours, "at", "value", look), spread=[r["std"] for r in ours])
    return Mark("line", means.x, means.y, look), means


def _point(
    at: float, value: float, std: float | None, n: int, keys: Iterable[str]
) -> dict[str, Any]:
    """A point of ours: the mean and sample standard deviation of n trials with these keys."""
    note = " ".join(key[:10] for key in keys)
    return {"source": "ours", "at": at, "value": value, "std": std, "n": n, "note": note}


def score_line(
    metric: str, groups: Mapping[float, Group], points: Iterable[Row]
) -> list[dict[str, Any]]:
    """The line of our trials, and the points of the paper.

    Of each: `at`, the value of the hyperparameter; `value`, the mean, None where the paper names
    the place alone; `std`, the sample standard deviation over seeds; `n`, our trials; `note`, what
    the paper says, or the keys of our trials.
    """
    rows = [
        _point(at, score.mean, score.std, score.n, group.keys)
        for at, group in groups.items()
        if (score := {**group.test, **group.dev}.get(metric))
    ]
    rows += [{"source": "paper", "std": None, "n": None, **point} for point in points]
    return [{"metric": metric, **row} for row in rows]


def cross_entropies(groups: Mapping[float, Group], store: Store) -> list[dict[str, Any]]:
    """The cross entropy of the last evaluated batch of stage 1, as rows of `score_line`."""
    rows: list[dict[str, Any]] = []
    for at, group in groups.items():
        losses = (
            [
                point["value"]
                for point in record.history
                if point["stage"] == "augmentation" and point["metric"] == "loss"
            ]
            for record in records_of(store, group.keys)
        )
        ends = [own[-1] for own in losses if own]
        if ends:
            std = statistics.stdev(ends) if len(ends) > 1 else None
            point = _point(at, statistics.fmean(ends), std, len(ends), group.keys)
            rows.append({"metric": CROSS_ENTROPY, **point})
    return rows


def table_figure(
    name: str, figure: TableFigure, compared: PaperTable, command: str
) -> DrawnAndLacking:
    """The figure of a table whose columns are the values of a hyperparameter: a curve for each row.

    name: that of its file. compared: its table, which `command` fills. There is no figure where the
    store has no trial of it.
    """
    places = [float(column.run.configuration[figure.axis]) for column in compared.columns]
    rows = [row.cells for _, rows in compared.sections for row in rows]
    labelled = list(zip([row.label for row in compared.table.rows], rows, strict=True))
    notes = _lacking(figure, labelled, places, command)
    cells = [cell for cell in compared.cells if cell.ours and cell.group]
    if not cells:
        return [], notes
    curves = [list(_points(label, row, places)) for label, row in labelled]
    counts = sorted({cell.ours.n for cell in cells if cell.ours})
    metric = next(cell.metric.name for cell in cells if cell.metric)
    shown = DISPLAY.get(metric, metric)
    quoted = any(point["source"] == "paper" for points in curves for point in points)
    marks: list[Mark] = []
    for number, points in enumerate(curves):
        look: Look = number if number < NAMED else "pale"
        told = [point for point in points if point["source"] == "paper"]
        theirs = replace(mark_of("points", told, "at", "value", look), hollow=True)
        marks += [*_curve([point for point in points if point["source"] == "ours"], look), theirs]
    panel = Panel(
        value_axis(figure.axis, places, width=80)[0],
        score_axis(shown, bar_ends(mark for mark in marks if mark.kind == "points"), 0.15),
        marks,
        height=2.6,
    )
    drawn = Figure(
        name=name,
        title=f"{compared.paper.title}: {figure.about}",
        caption=f"{shown}, mean over the seeds; bars: sample standard deviation over the seeds (n "
        f"= {', '.join(map(str, counts))}).{' Hollow: published numbers.' if quoted else ''}",
        rows=[point for points in curves for point in points],
        panels=[panel],
        legend=[label for label, _ in labelled[:NAMED]],
        columns=1,
    )
    return [drawn], [*notes, *drawn_all_the_same(cell.group for cell in cells if cell.group)]


def _points(label: str, cells: Sequence[Cell], places: Sequence[float]) -> Iterator[dict[str, Any]]:
    """The points of a row: ours, and those that somebody published."""
    for cell, at in sorted(zip(cells, places, strict=True), key=lambda pair: pair[1]):
        if ours := cell.ours:
            yield {"row": label, **_point(at, ours.mean, ours.std, ours.n, ours.keys)}
        if cell.number is not None and cell.published:
            told = {"std": None, "n": None, "note": cell.published.source}
            yield {"row": label, "source": "paper", "at": at, "value": cell.number, **told}


def _lacking(
    figure: TableFigure,
    labelled: Sequence[tuple[str, Sequence[Cell]]],
    places: Sequence[float],
    command: str,
) -> list[str]:
    """A sentence about each row that has not all of its points, with the command."""
    sentences = []
    for label, row in labelled:
        cells = zip(row, places, strict=True)
        missing = [number_text(at) for cell, at in cells if cell.wanted and not cell.ours]
        if missing:
            of = f"{figure.axis} {', '.join(missing)} of {label}"
            sentences.append(f"the store lacks {of}; run: {command}")
    return sentences


def drawn_all_the_same(groups: Iterable[Group]) -> list[str]:
    """A sentence about the trials of another protocol that a figure shows, if there are any."""
    numbers = sorted({str(each.provenance["protocol"]) for each in groups if not each.current})
    if not numbers:
        return []
    return [f"shown although trained or measured by protocol {', '.join(numbers)}, not {PROTOCOL}"]


def records_of(store: Store, keys: Collection[str]) -> list[Record]:
    """The records of trials, with their histories."""
    return store.read(where={"key": keys}).records()


def sweep_command(space: str, encoder: str, store: Store) -> str:
    """The command that runs what a figure lacks."""
    other = [] if encoder == ON_BERT else ["--encoder", encoder]
    return command(store.place, "sweep", space, *other)


def file_of(name: str, encoder: str) -> str:
    """The name of a figure's file."""
    return name if encoder == ON_BERT else f"{name}-{encoder.replace('/', '-')}"
