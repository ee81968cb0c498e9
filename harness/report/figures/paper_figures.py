"""The figures of the papers from the trials of a store: DiffAug 3, 4 and 5, and DCPCSE 2."""

import shlex
import statistics
from collections.abc import Collection, Mapping
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import UserError, suggest
from harness.evaluation.catalogue import DISPLAY, STS_AVERAGE, STSB_DEV
from harness.report.figures.paper_models import MODEL_FIGURES, drawn_all_the_same
from harness.report.figures.published_points import published_points
from harness.report.figures.report_figure import ReportFigure
from harness.report.figures.score_lines import (
    SCORE_LINES,
    ScoreLine,
    draw_score_lines,
    found_groups,
    score_line,
)
from harness.report.figures.stage_one_curves import draw_stage_one, stage_one_curves
from harness.report.groups import Group, comparable_groups
from harness.report.matching import ALL_LABELS, Finder, Wanted
from harness.report.measured_trials import TABLE_COLUMNS
from harness.trials.record import Record
from harness.trials.store import Store
from harness.trials.store_folders import store_option

ON_BERT = "bert-base-uncased"
"""The encoder of all these figures in the papers"""
CROSS_ENTROPY = "cross entropy of stage 1"
ITS_OWN = {"augmentation": "prefix", "views": "different", "second_stage": "all"}
"""DiffAug as its figures have it, without the ablations of its Table 3"""
PREFIX_LENGTHS = (1, 2, 4, 8, 16, 32)
STAGE_ONE_STEPS = tuple(range(250, 3001, 250))
LINES: Mapping[str, ScoreLine] = {
    "diffaug-figure4": ScoreLine(
        "diffaug", "semisup", ON_BERT, {"auxiliary_weight": 0}, "prefix_length", PREFIX_LENGTHS,
        STSB_DEV, ITS_OWN,
    ),
    "diffaug-figure5": ScoreLine(
        "diffaug", "semisup", ON_BERT, {"auxiliary_weight": 0, "prefix_length": 8}, "stage1_steps",
        STAGE_ONE_STEPS, STSB_DEV, ITS_OWN,
    ),
    "dcpcse-figure2": ScoreLine(
        "dcpcse", "unsup", ON_BERT, {}, "prompt_length", tuple(range(1, 21)), STS_AVERAGE,
        {"prompts": "deep", "mlm": False},
    ),
}  # fmt: skip
"""Name of a figure, and of the search space that fills it -> its line. The values are those of the
search space, because no paper prints all of its own."""
STAGE_ONE_FIGURE = "diffaug-figure3"
STORE_FIGURES = (*LINES, STAGE_ONE_FIGURE)
"""The figures that the records of a store are enough for"""
DrawnAndLacking = tuple[list[ReportFigure], list[str]]
"""The figures, and sentences about what the store lacks"""


def figure_name(paper: str, number: int) -> str:
    """The name of a paper's figure. Raises UserError when there is no such figure here."""
    known = sorted((*STORE_FIGURES, *MODEL_FIGURES))
    papers = sorted({name.partition("-")[0] for name in known})
    if paper not in papers:
        raise UserError(
            f'there is no figure of a paper "{paper}" that can be drawn{suggest(paper, papers)}'
        )
    name = f"{paper}-figure{number}"
    if name not in known:
        own = [each.partition("figure")[2] for each in known if each.startswith(f"{paper}-")]
        raise UserError(
            f"there is no Figure {number} of {paper} that can be drawn; there is {', '.join(own)}"
        )
    return name


def store_figure(name: str, store: Store, encoder: str | None) -> DrawnAndLacking:
    """A figure of STORE_FIGURES on an encoder; None: that of the paper."""
    groups = comparable_groups(store.read(TABLE_COLUMNS).table)
    if name == STAGE_ONE_FIGURE:
        return _stage_one(groups, store, encoder or ON_BERT)
    return _line(name, replace(LINES[name], encoder=encoder or ON_BERT), groups, store)


def _line(name: str, line: ScoreLine, groups: Collection[Group], store: Store) -> DrawnAndLacking:
    found = found_groups(line, groups)
    paper, _, figure = name.partition("-")
    points = published_points(paper, figure)
    table = score_line(line, found, points)
    if name == "diffaug-figure5":
        table = pa.concat_tables([table, cross_entropies(line, found, store)])
    ours = [row["at"] for row in table.to_pylist() if row["source"] == "ours"]
    lacking = [str(value) for value in line.values if value not in ours]
    notes = []
    if lacking:
        what = f"{line.hyperparameter} {', '.join(lacking)} of {line.method} on {line.encoder}"
        notes.append(f"the store lacks {what}; run: {_sweep(name, line.encoder, store)}")
    if not ours:
        return [], notes  # an empty axis says less than the note
    notes += drawn_all_the_same(found.values())
    said = "; ".join(f"at {point.at:g}: {point.note}" for point in points)
    return [
        ReportFigure(
            name=_file(name, line.encoder),
            title=f"{paper}, Figure {figure.removeprefix('figure')}: {line.method} on "
            f"{line.encoder}, {line.hyperparameter}",
            caption=f"{DISPLAY.get(line.metric, line.metric)} x100, mean over the seeds; bars: "
            f"sample standard deviation over the seeds (n = {_counts(table)}). Of several "
            f"configurations with one {line.hyperparameter} the one with the best dev mean is "
            f"shown. The plotted points of the paper are not in its text, which says: {said}.",
            table=table,
            draw=draw_score_lines,
        )
    ], notes


def cross_entropies(line: ScoreLine, groups: Mapping[int, Group], store: Store) -> pa.Table:
    """The cross entropy of the last evaluated batch of stage 1, as rows of SCORE_LINES."""
    rows = []
    for value, group in groups.items():
        ends = [end for record in _records(store, group.keys) if (end := _stage_one_end(record))]
        if ends:
            rows.append(
                {
                    "hyperparameter": line.hyperparameter,
                    "metric": CROSS_ENTROPY,
                    "source": "ours",
                    "at": float(value),
                    "value": statistics.fmean(ends),
                    "std": statistics.stdev(ends) if len(ends) > 1 else None,
                    "n": len(ends),
                    "note": " ".join(key[:10] for key in group.keys),
                }
            )
    return pa.Table.from_pylist(rows, schema=SCORE_LINES)


def _stage_one_end(record: Record) -> float | None:
    points = [
        point
        for point in record.history
        if point["stage"] == "augmentation" and point["metric"] == "loss"
    ]
    return points[-1]["value"] if points else None


def _stage_one(groups: Collection[Group], store: Store, encoder: str) -> DrawnAndLacking:
    wanted = Wanted("diffaug", "semisup", encoder, (("analysis", True),), tuple(ALL_LABELS.items()))
    found = Finder(groups).find(wanted)
    if found is None:
        command = _sweep(STAGE_ONE_FIGURE, encoder, store)
        return [], [f"the store has no analysed trial of diffaug on {encoder}; run: {command}"]
    table = stage_one_curves(
        _records(store, found.group.keys), published_points("diffaug", "figure3a")
    )
    return [
        ReportFigure(
            name=_file(STAGE_ONE_FIGURE, encoder),
            title=f"diffaug, Figure 3: stage 1 on {encoder}",
            caption="(a) Mean distance of the two views of a sentence, and in grey that of two "
            "passes with dropout alone. (b) How much longer the keys and values of the encoder are "
            "than those of the prefix. One line for each seed. Dotted: the paper's text has delta "
            "highest around step 1500, and kappa falling throughout.",
            table=table,
            draw=draw_stage_one,
        )
    ], drawn_all_the_same([found.group])


def _records(store: Store, keys: Collection[str]) -> list[Record]:
    return store.read(where=pc.field("key").isin(list(keys))).records()


def _sweep(space: str, encoder: str, store: Store) -> str:
    """The command that runs what a figure lacks."""
    other = [] if encoder == ON_BERT else ["--encoder", encoder]
    return shlex.join(["harness", "sweep", space, *other, *store_option(store.place)])


def _file(name: str, encoder: str) -> str:
    return name if encoder == ON_BERT else f"{name}-{encoder.replace('/', '-')}"


def _counts(table: pa.Table) -> str:
    counts = sorted({count for count in table["n"].to_pylist() if count is not None})
    return ", ".join(map(str, counts)) or "0"
