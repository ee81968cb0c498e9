"""The figures of the papers from the trials of a store, and what the store lacks of them.

DiffAug 3, 4 and 5 and DCPCSE 2 need its records alone; DiffCSE 2 and D2CSE 2 need trained models.
"""

import functools
import math
import shlex
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow.compute as pc
import yaml

from harness import PROTOCOL
from harness.errors import UserError, suggest
from harness.evaluation.catalogue import DISPLAY
from harness.report.figures.specification import (
    Figure,
    Look,
    Mark,
    Panel,
    Row,
    axis,
    bar_ends,
    mark_of,
    score_axis,
    value_axis,
)
from harness.report.groups import Group
from harness.report.matching import Commands, Found, Wanted
from harness.report.measured_trials import TABLE_COLUMNS, MeasuredTrial
from harness.report.paper_cells import Comparer
from harness.report.published import folder, load_systems
from harness.trials.record import Record
from harness.trials.store import Store
from harness.trials.store_folders import store_option

TITLES = {
    "divergence": "(a) divergence of the views (delta)",
    "convergence": "(b) convergence of the weights (kappa)",
}
DROPOUT = "divergence-dropout"


@dataclass(frozen=True)
class PublishedPoint:
    """A point of a published figure."""

    at: float
    """The place on the horizontal axis"""
    value: float | None
    """None: the text says something about the place alone"""
    note: str
    """The words of the text, or the source of the value"""


@functools.cache
def published_points(paper: str, figure: str) -> tuple[PublishedPoint, ...]:
    """The points of a figure, `figure5` or `figure3a`; none where the text has none."""
    content = yaml.safe_load((folder() / f"{paper}.yaml").read_text(encoding="utf-8"))
    points = content["figures"][figure].get("points") or ()
    own = {"value", "note", "source"}
    return tuple(
        PublishedPoint(
            at=next(float(value) for name, value in point.items() if name not in own),
            value=point.get("value"),
            note=point.get("note") or point.get("source") or "",
        )
        for point in points
    )


ON_BERT = "bert-base-uncased"
"""The encoder of all these figures in the papers"""
AXES = {
    "stage1_steps": "steps of stage 1",
    "prompt_length": "prompt length",
}
"""Hyperparameter -> its words along an axis"""
CROSS_ENTROPY = "cross entropy of stage 1"
LINES = ("diffaug-figure4", "diffaug-figure5", "dcpcse-figure2")
"""Names of the figures with a curve, and of the search spaces that fill them; their trials and
values are in results/reported/systems.yaml, because no paper prints all of its values"""
STAGE_ONE_FIGURE = "diffaug-figure3"
MODEL_FIGURES = ("diffcse-figure2", "d2cse-figure2")
"""Their models are the rows of results/reported/systems.yaml"""
STORE_FIGURES = (*LINES, STAGE_ONE_FIGURE)
"""The figures that the records of a store are enough for"""
DrawnAndLacking = tuple[list[Figure], list[str]]
"""The figures, and sentences about what the store lacks"""


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
    return _line(name, matches, store)


def _line(
    name: str, matches: Sequence[tuple[Wanted, Found | None]], store: Store
) -> DrawnAndLacking:
    paper, _, number = name.partition("-")
    drawn, points = load_systems().figures[f"{paper}.{number}"], published_points(paper, number)
    [(hyperparameter, values)] = drawn.axis.items()
    wanted, metric = matches[0][0], str(drawn.metric)
    groups = {
        float(value): match.group
        for value, (_, match) in zip(values, matches, strict=True)
        if match is not None
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
        notes.append(f"the store lacks {of}; run: {_sweep(name, wanted.encoder, store)}")
    if not ours:
        return [], notes  # an empty axis says less than the note
    notes += drawn_all_the_same(groups.values())
    words = "; ".join(f"at {point.at:g}: {point.note}" for point in points)
    counts = sorted({row["n"] for row in rows if row["n"] is not None})
    figure = Figure(
        name=_file(name, wanted.encoder),
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
    means = replace(mark_of("points", ours, "at", "value", 0), spread=[row["std"] for row in ours])
    theirs = mark_of("points", told, "at", "value", 1)
    label, ends = DISPLAY.get(metric, metric), bar_ends([means, theirs])
    scores = score_axis(label, ends, 0.15)
    return Panel(
        value_axis(AXES[own[0]["hyperparameter"]], [row["at"] for row in own], width=80)[0],
        axis(label, ends, least=0, margin=0.15) if metric == CROSS_ENTROPY else scores,
        [
            Mark("vertical", places, [], "pale"),
            Mark("horizontal", [], theirs.y, 1),
            Mark("line", means.x, means.y, 0),
            means,
            theirs,
        ],
        height=2.6,
    )


def cross_entropies(groups: Mapping[float, Group], store: Store) -> list[dict[str, Any]]:
    """The cross entropy of the last evaluated batch of stage 1, as rows of `score_line`."""
    rows: list[dict[str, Any]] = []
    for value, group in groups.items():
        ends = [end for record in _records(store, group.keys) if (end := _stage_one_end(record))]
        if ends:
            rows.append(
                {
                    "metric": CROSS_ENTROPY,
                    "source": "ours",
                    "at": value,
                    "value": statistics.fmean(ends),
                    "std": statistics.stdev(ends) if len(ends) > 1 else None,
                    "n": len(ends),
                    "note": " ".join(key[:10] for key in group.keys),
                }
            )
    return rows


def _stage_one_end(record: Record) -> float | None:
    points = [
        point
        for point in record.history
        if point["stage"] == "augmentation" and point["metric"] == "loss"
    ]
    return points[-1]["value"] if points else None


def _stage_one(wanted: Wanted, match: Found | None, store: Store) -> DrawnAndLacking:
    encoder = wanted.encoder
    if match is None:
        command = _sweep(STAGE_ONE_FIGURE, encoder, store)
        return [], [f"the store has no analysed trial of diffaug on {encoder}; run: {command}"]
    points = published_points("diffaug", "figure3a")
    rows = stage_one_curves(_records(store, match.group.keys), points)
    seeds = sorted({row["seed"] for row in rows if row["source"] == "ours"})
    if not seeds:
        command = _sweep(STAGE_ONE_FIGURE, encoder, store)
        return [], [f"the store has no curve of stage 1 of diffaug on {encoder}; run: {command}"]
    figure = Figure(
        name=_file(STAGE_ONE_FIGURE, encoder),
        title=f"diffaug, Figure 3: stage 1 on {encoder}",
        caption="(a) Mean distance of the two views of a sentence, and in grey that of two "
        "passes with dropout alone. (b) How much longer the keys and values of the encoder are "
        "than those of the prefix. One line for each seed. Dotted: the paper's text has delta "
        "highest around step 1500, and kappa falling throughout.",
        rows=rows,
        panels=[_stage_one_panel(metric, rows, seeds) for metric in TITLES],
        legend=[f"seed {seed}" for seed in seeds],
    )
    return [figure], drawn_all_the_same([match.group])


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


def _records(store: Store, keys: Collection[str]) -> list[Record]:
    return store.read(where=pc.field("key").isin(list(keys))).records()


def _sweep(space: str, encoder: str, store: Store) -> str:
    """The command that runs what a figure lacks."""
    other = [] if encoder == ON_BERT else ["--encoder", encoder]
    return shlex.join(["harness", "sweep", space, *other, *store_option(store.place)])


def _file(name: str, encoder: str) -> str:
    return name if encoder == ON_BERT else f"{name}-{encoder.replace('/', '-')}"


def score_line(
    metric: str, groups: Mapping[float, Group], points: Iterable[PublishedPoint]
) -> list[dict[str, Any]]:
    """The line of our trials, and the points of the paper.

    Of each: `at`, the value of the hyperparameter; `value`, the mean, None where the paper names
    the place alone; `std`, the sample standard deviation over seeds; `n`, our trials; `note`, what
    the paper says, or the keys of our trials.
    """
    rows: list[dict[str, Any]] = []
    for value, group in groups.items():
        cell = {**group.test, **group.dev}.get(metric)
        if cell is not None:
            keys = " ".join(key[:10] for key in group.keys)
            scores = {"value": cell.mean, "std": cell.std, "n": cell.n, "note": keys}
            rows.append({"source": "ours", "at": value, **scores})
    rows += [{"source": "paper", "std": None, "n": None, **vars(point)} for point in points]
    return [{"metric": metric, **row} for row in rows]


def stage_one_curves(records: Iterable[Record], points: Iterable[PublishedPoint]) -> list[Row]:
    """Both curves and the reference line of dropout, by seed; and the paper's points.

    `points`: those of panel a, which name a step.
    """
    rows: list[Row] = [
        {
            "source": "ours",
            "key": record.key,
            "seed": record.seed,
            **{name: point[name] for name in ("metric", "step", "value")},
        }
        for record in sorted(records, key=lambda record: (record.seed, record.key))
        for point in record.history
        if point["metric"] in (*TITLES, DROPOUT)
    ]
    paper = {"source": "paper", "key": "", "seed": None, "metric": "divergence"}
    told = [{**paper, "step": int(point.at), "note": point.note} for point in points]
    return [*rows, *told]


def chosen_trials(
    name: str, comparer: Comparer, commands: Commands
) -> tuple[dict[str, str], list[str]]:
    """Method -> key of its trial that a figure of MODEL_FIGURES shows.

    It is the one with the best dev score, of the configuration with the best mean. And sentences
    about what the store lacks, with the command that runs it.
    """
    matches = comparer.figure(name.replace("-", "."))
    keys = {wanted.method: best_trial(each.group).key for wanted, each in matches if each}
    notes = [
        f"the store has no {wanted}; run: {commands.sweep(wanted)}"
        for wanted, each in matches
        if each is None
    ]
    return keys, [*notes, *drawn_all_the_same(each.group for _, each in matches if each)]


def drawn_all_the_same(groups: Iterable[Group]) -> list[str]:
    """A sentence about the trials of another protocol that a figure shows, if there are any."""
    numbers = sorted({str(each.provenance["protocol"]) for each in groups if not each.current})
    if not numbers:
        return []
    return [f"shown although trained or measured by protocol {', '.join(numbers)}, not {PROTOCOL}"]


def best_trial(group: Group) -> MeasuredTrial:
    """The trial with the best dev score; of equal ones, the first key."""
    return min(group.trials, key=lambda trial: (-trial.dev.get(group.selects, -1e9), trial.key))
