"""Curves of scores along a hyperparameter: of the papers' figures, and of tables of one's own."""

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from harness.report.groups import Group, Score, cell_of
from harness.report.matching import Wanted, command
from harness.report.paper import TableFigure, load_systems
from harness.report.paper_cells import PaperTable
from harness.report.published import folder
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
    scores = {at: {**group.test, **group.dev}.get(metric) for at, group in groups.items()}
    alike = {"hyperparameter": hyperparameter, "metric": metric}
    rows: list[Row] = [
        {**alike, **_point(at, score, groups[at].keys)} for at, score in scores.items() if score
    ]
    rows += [{**alike, "source": "paper", "std": None, "n": None, **point} for point in points]
    if name == "diffaug-figure5":
        rows += [
            {**alike, "metric": CROSS_ENTROPY, **_point(at, score, groups[at].keys)}
            for at, score in _cross_entropies(groups, store).items()
        ]
    ours = [row["at"] for row in rows if row["source"] == "ours"]
    lacking = [str(value) for value in values if value not in ours]
    notes = []
    if lacking:
        of = f"{hyperparameter} {', '.join(lacking)} of {wanted.method} on {wanted.encoder}"
        notes.append(f"the store lacks {of}; run: {sweep_command(name, wanted.encoder, store)}")
    if not ours:
        return [], notes  # an empty axis says less than the note
    words = "; ".join(f"at {point['at']:g}: {point['note']}" for point in points)
    figure = Figure(
        name=file_of(name, wanted.encoder),
        title=f"{paper}, Figure {number.removeprefix('figure')}: {wanted.method} on "
        f"{wanted.encoder}, {hyperparameter}",
        caption=f"{DISPLAY.get(metric, metric)} x100, mean over the seeds; bars: "
        f"sample standard deviation over the seeds (n = {_counts(rows)}). Of several "
        f"configurations with one {hyperparameter} the one with the best dev mean is "
        f"shown. The plotted points of the paper are not in its text, which says: {words}.",
        rows=rows,
        panels=[
            _score_panel(name, [row for row in rows if row["metric"] == name])
            for name in dict.fromkeys(row["metric"] for row in rows)
        ],
        legend=["ours: mean of the seeds, bars: their standard deviation", "value of the paper"],
        columns=1,
    )
    return [figure], [*notes, *drawn_all_the_same(groups.values())]


def _score_panel(metric: str, rows: Sequence[Row]) -> Panel:
    """The curve of one metric, with lines where the paper's text says something."""
    line, means, theirs = _curve(rows, 0, 1)
    named = [row["at"] for row in rows if row["value"] is None]
    label, ends = DISPLAY.get(metric, metric), bar_ends([means, theirs])
    if metric == CROSS_ENTROPY:
        y = axis(label, ends, least=0, margin=0.15)
    else:
        y = score_axis(label, ends, 0.15)
    under = [Mark("vertical", named, [], "pale"), Mark("horizontal", [], theirs.y, 1)]
    x, _ = value_axis(AXES[rows[0]["hyperparameter"]], [row["at"] for row in rows], width=80)
    return Panel(x, y, [*under, line, means, theirs], height=2.6)


def _curve(rows: Sequence[Row], look: Look, theirs: Look) -> tuple[Mark, Mark, Mark]:
    """A line through our means, points with their standard deviations, and published numbers."""
    ours = sorted((row for row in rows if row["source"] == "ours"), key=lambda row: row["at"])
    told = [row for row in rows if row["source"] == "paper" and row["value"] is not None]
    means = replace(mark_of("points", ours, "at", "value", look), spread=[r["std"] for r in ours])
    line = Mark("line", means.x, means.y, look)
    return line, means, mark_of("points", told, "at", "value", theirs)


def _point(at: float, score: Score, keys: Iterable[str]) -> dict[str, Any]:
    """A point of ours: the value of a hyperparameter, and the score of the trials there.

    A point of a paper has the same names; its `value` is None where the text names the place alone.
    """
    note = " ".join(key[:10] for key in keys)
    own = {"value": score.mean, "std": score.std, "n": score.n, "note": note}
    return {"source": "ours", "at": at, **own}


def _counts(rows: Iterable[Row]) -> str:
    """The numbers of trials behind points, as text."""
    return ", ".join(map(str, sorted({row["n"] for row in rows if row["n"] is not None})))


def _cross_entropies(groups: Mapping[float, Group], store: Store) -> dict[float, Score]:
    """The cross entropy of the last evaluated batch of stage 1, where the store has it."""
    scores = {}
    for at, group in groups.items():
        losses = (
            [
                point["value"]
                for point in record.history
                if point["stage"] == "augmentation" and point["metric"] == "loss"
            ]
            for record in store.read(where={"key": group.keys}).records()
        )
        if ends := [own[-1] for own in losses if own]:
            scores[at] = cell_of(ends, group.trials)
    return scores


def table_figure(
    name: str, figure: TableFigure, compared: PaperTable, command: str
) -> DrawnAndLacking:
    """The figure of a table whose columns are the values of a hyperparameter: a curve for each row.

    name: that of its file. compared: its table, which `command` fills. There is no figure where the
    store has no trial of it.
    """
    places = [float(column.run.configuration[figure.axis]) for column in compared.columns]
    cells_of = [row.cells for _, rows in compared.sections for row in rows]
    labelled = list(zip([row.label for row in compared.table.rows], cells_of, strict=True))
    notes = []
    for label, own in labelled:
        pairs = zip(own, places, strict=True)
        if missing := [number_text(at) for cell, at in pairs if cell.wanted and not cell.ours]:
            of = f"{figure.axis} {', '.join(missing)} of {label}"
            notes.append(f"the store lacks {of}; run: {command}")
    cells = [cell for cell in compared.cells if cell.ours and cell.group]
    if not cells:
        return [], notes
    curves = [list(_points(label, own, places)) for label, own in labelled]
    rows = [point for points in curves for point in points]
    metric = next(cell.metric.name for cell in cells if cell.metric)
    shown = DISPLAY.get(metric, metric)
    marks: list[Mark] = []
    for number, points in enumerate(curves):
        look: Look = number if number < NAMED else "pale"
        line, means, theirs = _curve(points, look, look)
        marks += [line, means, replace(theirs, hollow=True)]
    x, _ = value_axis(figure.axis, places, width=80)
    y = score_axis(shown, bar_ends(mark for mark in marks if mark.kind == "points"), 0.15)
    hollow = " Hollow: published numbers." if any(row["source"] == "paper" for row in rows) else ""
    drawn = Figure(
        name=name,
        title=f"{compared.paper.title}: {figure.about}",
        caption=f"{shown}, mean over the seeds; bars: sample standard deviation over the seeds (n "
        f"= {_counts(rows)}).{hollow}",
        rows=rows,
        panels=[Panel(x, y, marks, height=2.6)],
        legend=[label for label, _ in labelled[:NAMED]],
        columns=1,
    )
    return [drawn], [*notes, *drawn_all_the_same(cell.group for cell in cells if cell.group)]


def _points(label: str, cells: Sequence[Cell], places: Sequence[float]) -> Iterator[Row]:
    """The points of a row: ours, and those that somebody published."""
    for cell, at in sorted(zip(cells, places, strict=True), key=lambda pair: pair[1]):
        if cell.ours:
            yield {"row": label, **_point(at, cell.ours, cell.ours.keys)}
        if cell.number is not None and cell.published:
            told = {"std": None, "n": None, "note": cell.published.source}
            yield {"row": label, "source": "paper", "at": at, "value": cell.number, **told}


def drawn_all_the_same(groups: Iterable[Group]) -> list[str]:
    """A sentence about the trials of another protocol that a figure shows, if there are any."""
    protocols = {str(group.provenance["protocol"]) for group in groups if not group.current}
    numbers = ", ".join(sorted(protocols))
    shown = f"shown although trained or measured by protocol {numbers}, not {PROTOCOL}"
    return [shown] if protocols else []


def sweep_command(space: str, encoder: str, store: Store) -> str:
    """The command that runs what a figure lacks."""
    other = [] if encoder == ON_BERT else ["--encoder", encoder]
    return command(store.place, "sweep", space, *other)


def file_of(name: str, encoder: str) -> str:
    """The name of a figure's file."""
    return name if encoder == ON_BERT else f"{name}-{encoder.replace('/', '-')}"
