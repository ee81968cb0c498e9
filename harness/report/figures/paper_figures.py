"""The figures of the papers from the trials of a store, and what the store lacks of them.

DiffAug 3, 4 and 5 and DCPCSE 2 need its records alone; DiffCSE 2 and D2CSE 2 need trained models.
"""

import math
from collections.abc import Sequence

from harness.errors import UserError, suggest
from harness.report.figures.lines import (
    DrawnAndLacking,
    drawn_all_the_same,
    file_of,
    line_figure,
    published_points,
    sweep_command,
)
from harness.report.figures.specification import Figure, Look, Mark, Panel, Row, axis, mark_of
from harness.report.groups import Group
from harness.report.matching import Commands, Wanted
from harness.report.measured_trials import TABLE_COLUMNS
from harness.report.paper_cells import Comparer
from harness.trials.store import Store

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


def _stage_one(wanted: Wanted, group: Group | None, store: Store) -> DrawnAndLacking:
    """Both curves of stage 1 and the reference line of dropout, by seed; and the paper's points."""
    encoder, keys = wanted.encoder, group.keys if group else ()
    records = store.read(where={"key": keys}).records() if keys else []
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
    groups = {wanted.method: group for wanted, group in matches if group}
    best = {method: group.best_trial(group.trials) for method, group in groups.items()}
    notes = [
        f"the store has no {wanted}; run: {commands.sweep(wanted)}"
        for wanted, group in matches
        if group is None
    ]
    keys = {method: trial.key for method, trial in best.items() if trial}
    return keys, [*notes, *drawn_all_the_same(group for _, group in matches if group)]
