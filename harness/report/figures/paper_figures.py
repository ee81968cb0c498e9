"""Figures of the papers and of tables of one's own, and what a store lacks of them.

DiffAug 3, 4 and 5 and DCPCSE 2 need its records alone; DiffCSE 2 and D2CSE 2 need trained models.
"""

import functools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import yaml

from harness import PROTOCOL
from harness.errors import UserError, suggest
from harness.evaluation.catalogue import DISPLAY
from harness.files import shipped
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
from harness.report.groups import Group, Score, cell_of, former_protocols
from harness.report.matching import Commands, Wanted, command
from harness.report.measured_trials import TABLE_COLUMNS
from harness.report.paper import TableFigure, load_systems
from harness.report.paper_cells import Comparer, PaperTable
from harness.trials.store import Store

ON_BERT = "bert-base-uncased"
"""The encoder of all figures in the papers"""
AXES = {"stage1_steps": "steps of stage 1", "prompt_length": "prompt length"}
"""Hyperparameter -> its words along an axis"""
CROSS_ENTROPY = "cross entropy of stage 1"
STAGE_ONE_LOSS = ("augmentation", "loss")
"""Its stage and metric in a history"""
DrawnAndLacking = tuple[list[Figure], list[str]]
"""The figures, and sentences about what the store lacks"""
TITLES = {
    "divergence": "(a) divergence of the views (delta)",
    "convergence": "(b) convergence of the weights (kappa)",
}
DROPOUT = "divergence-dropout"
LINES = ("diffaug-figure4", "diffaug-figure5", "dcpcse-figure2")
"""Names of the figures with a curve, and of the search spaces that fill them; their trials and
values are in results/reported/systems.yaml, because no paper prints all of its values"""
STAGE_ONE_FIGURE = "diffaug-figure3"
MODEL_FIGURES = ("diffcse-figure2", "d2cse-figure2")
"""Their models are the rows of results/reported/systems.yaml"""
STORE_FIGURES = (*LINES, STAGE_ONE_FIGURE)
"""The figures that the records of a store are enough for"""


def figure_name(paper: str, number: int) -> str:
    """The name of a paper's figure. Raises UserError when there is no such figure here."""
    names = sorted((*STORE_FIGURES, *MODEL_FIGURES))
    papers = sorted({name.partition("-")[0] for name in names})
    if paper not in papers:
        raise UserError(
            f'there is no figure of a paper "{paper}" that can be drawn{suggest(paper, papers)}; '
            f"any sweep is drawn by `harness figure --sweep SPACE`"
        )
    name = f"{paper}-figure{number}"
    if name not in names:
        own = [each.partition("figure")[2] for each in names if each.startswith(f"{paper}-")]
        raise UserError(
            f"there is no Figure {number} of {paper} that can be drawn; there is {', '.join(own)}"
        )
    return name


def store_figure(name: str, store: Store, encoder: str | None) -> DrawnAndLacking:
    """A figure of STORE_FIGURES on an encoder; None: that of the paper."""
    comparer = Comparer(store.read(TABLE_COLUMNS).table, encoder)
    matches = comparer.figure(name.replace("-", "."))
    if name == STAGE_ONE_FIGURE:
        return _stage_one(*matches[0], store)
    return line_figure(name, matches, store)


@functools.cache
def published_points(paper: str, figure: str) -> tuple[Row, ...]:
    """The points of a figure, `figure5` or `figure3a`; none where the text has none.

    Of each: `at`, its place on the horizontal axis; `value`, None where the text says something of
    the place alone; `note`, the words of the text, or the source of the value.
    """
    content = yaml.safe_load((shipped("reported") / f"{paper}.yaml").read_text(encoding="utf-8"))
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
    groups = {float(at): group for at, (_, group) in zip(values, matches, strict=True) if group}
    scores = {at: {**group.test, **group.dev}.get(metric) for at, group in groups.items()}
    alike = {"hyperparameter": hyperparameter, "metric": metric}
    rows: list[Row] = [{**alike, **_point(at, score)} for at, score in scores.items() if score]
    rows += [{**alike, "source": "paper", "std": None, "n": None, **point} for point in points]
    if name == "diffaug-figure5":
        rows += [
            {**alike, "metric": CROSS_ENTROPY, **_point(at, score)}
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


def _point(at: float, score: Score) -> dict[str, Any]:
    """A point of ours: the value of a hyperparameter, and the score of the trials there.

    A point of a paper has the same names; its `value` is None where the text names the place alone.
    """
    note = " ".join(key[:10] for key in score.keys)
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
            [p["value"] for p in record.history if (p["stage"], p["metric"]) == STAGE_ONE_LOSS]
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
            yield {"row": label, **_point(at, cell.ours)}
        if cell.number is not None and cell.published:
            told = {"std": None, "n": None, "note": cell.published.source}
            yield {"row": label, "source": "paper", "at": at, "value": cell.number, **told}


def drawn_all_the_same(groups: Iterable[Group]) -> list[str]:
    """A sentence about the trials of another protocol that a figure shows, if there are any."""
    numbers = former_protocols(groups)
    shown = f"shown although trained or measured by protocol {numbers}, not {PROTOCOL}"
    return [shown] if numbers else []


def sweep_command(space: str, encoder: str, store: Store) -> str:
    """The command that runs what a figure lacks."""
    other = [] if encoder == ON_BERT else ["--encoder", encoder]
    return command(store.place, "sweep", space, *other)


def file_of(name: str, encoder: str) -> str:
    """The name of a figure's file."""
    return name if encoder == ON_BERT else f"{name}-{encoder.replace('/', '-')}"


def _stage_one(wanted: Wanted, group: Group | None, store: Store) -> DrawnAndLacking:
    """Both curves of stage 1 and the reference line of dropout, by seed; and the paper's points."""
    encoder, keys = wanted.encoder, group.keys if group else ()
    names = ("metric", "step", "value")
    records = store.read(where={"key": keys}).records() if keys else []
    rows: list[Row] = [
        {"source": "ours", "key": record.key, "seed": record.seed} | {n: point[n] for n in names}
        for record in sorted(records, key=lambda record: (record.seed, record.key))
        for point in record.history
        if point["metric"] in (*TITLES, DROPOUT)
    ]
    seeds = sorted({row["seed"] for row in rows})
    if group is None or not seeds:
        lacking = "curve of stage 1" if group else "analysed trial"
        command = sweep_command(STAGE_ONE_FIGURE, encoder, store)
        return [], [f"the store has no {lacking} of diffaug on {encoder}; run: {command}"]
    paper = {"source": "paper", "key": "", "seed": None, "metric": "divergence"}
    points = published_points("diffaug", "figure3a")
    rows += [{**paper, "step": int(point["at"]), "note": point["note"]} for point in points]
    figure = Figure(
        name=file_of(STAGE_ONE_FIGURE, encoder),
        title=f"diffaug, Figure 3: stage 1 on {encoder}",
        caption="(a) Mean distance of the two views of a sentence, and in grey that of two "
        "passes with dropout alone. (b) How much longer the keys and values of the encoder are "
        "than those of the prefix. One line for each seed. Dotted: the paper's text has delta "
        "highest around step 1500, and kappa falling throughout.",
        rows=rows,
        panels=[_stage_one_panel(metric, rows, seeds) for metric in TITLES],
        legend=[f"seed {seed}" for seed in seeds],
    )
    return [figure], drawn_all_the_same([group])


def _stage_one_panel(metric: str, rows: Sequence[Row], seeds: list[int]) -> Panel:
    marks = []
    for name in (DROPOUT, metric) if metric == "divergence" else (metric,):
        for number, seed in enumerate(seeds):
            own = [row for row in rows if (row["seed"], row["metric"]) == (seed, name)]
            look: Look = "pale" if name == DROPOUT else number
            marks.append(mark_of("line", own, "step", "value", look))
    told = [row["step"] for row in rows if row["source"] == "paper" and row["metric"] == metric]
    steps = [0, *told, *(step for mark in marks for step in mark.x)]
    values = [value for mark in marks for value in mark.y]
    return Panel(
        axis("step of stage 1", steps, least=0),
        axis("", values, least=0 if metric == "divergence" else -math.inf),  # a mean of distances
        [Mark("vertical", told, [], "pale"), *marks],
        TITLES[metric],
        height=2.8,
    )


def chosen_trials(
    name: str, comparer: Comparer, commands: Commands
) -> tuple[dict[str, str], list[str]]:
    """Method -> key of its trial that a figure of MODEL_FIGURES shows.

    It is the one with the best dev score, of the configuration with the best mean. And sentences
    about what the store lacks, with the command that runs it.
    """
    matches = comparer.figure(name.replace("-", "."))
    best = {wanted.method: group.best_trial(group.trials) for wanted, group in matches if group}
    notes = [
        f"the store has no {wanted}; run: {commands.sweep(wanted)}"
        for wanted, group in matches
        if group is None
    ]
    keys = {method: trial.key for method, trial in best.items() if trial}
    return keys, [*notes, *drawn_all_the_same(group for _, group in matches if group)]
