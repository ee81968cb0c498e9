"""The notes under a table: what is left out, marked or unlike the paper, and how it is filled."""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from harness.data.corpora import SOURCES
from harness.errors import counted, headline
from harness.evaluation.catalogue import DISPLAY
from harness.report.cells import FOREIGN, LEAK, LEAKED, Cell
from harness.report.groups import Group, former_protocols
from harness.report.matching import Commands, Wanted, command, obstacle, published_values, yaml_text
from harness.report.measured_trials import MeasuredTrial
from harness.report.paper_cells import OTHER_SYSTEM, PaperTable
from harness.report.quantities import Quantity, Special
from harness.report.row_names import file_name
from harness.report.tables import Row, n_text
from harness.trials.record import trial_label
from harness.trials.record_files import Reading, is_text

_NOT_COMPARED = {"setting", "encoder", "subset"}
"""Fields of a configuration that rows have anyway, or that are drawn"""
Matched = Mapping[Wanted, tuple[str, Group]]
"""The trials that reproduce a number -> the label of their first row, and those of the store"""
SHOWN = 5
"""The number of records or rows that one note names"""
_NAMED = ("method", "setting", "encoder", "seed", "label_fraction", "subset")


def first_of(texts: Sequence[str]) -> list[str]:
    """The first SHOWN texts, and how many more there are."""
    more = [f"and {len(texts) - SHOWN} more"] if len(texts) > SHOWN else []
    return [*texts[:SHOWN], *more]


def leaks(rows: Iterable[Row]) -> list[str]:
    """A note about the marked scores: which rows, and how much of which tests."""
    lines: dict[str, list[str]] = {}
    for row in rows:
        leaks = dict.fromkeys(leak for cell in row.cells if cell.ours for leak in cell.leaks)
        if leaks:
            lines.setdefault(", ".join(leaks), []).append(row.address)
    if not lines:
        return []
    shown = [f"row {', '.join(places)}: {leaks}" for leaks, places in lines.items()]
    return [
        f"{LEAK} the training data have at least {100 * LEAKED:g} % of the test: pairs of which "
        f"both sentences stand in one training item, or single sentences where a test has no "
        f"pairs; "
        f"{'; '.join(first_of(shown))}"
    ]


def shortcomings(trials: pa.Table) -> list[str]:
    """Notes about failed and partial trials and evaluations, with the reasons of the first ones."""
    rows = _unfinished(trials)
    notes = []
    for status in ("failed", "partial"):
        for noun, evaluation in (("trial", False), ("evaluation", True)):
            lines = sorted(
                _line(row)
                for row in rows
                if row["status"] == status and (row["role"] == "evaluation") == evaluation
            )
            if lines:
                count = counted(len(lines), f"{status} {noun}")
                notes.append(f"{count}: {'; '.join(first_of(lines))}")
    return notes


def unreadable(reading: Reading) -> str:
    """The note about the files of the store that could not be read."""
    files = "; ".join(f"{name} ({reason})" for name, reason in reading.unreadable)
    return f"{counted(len(reading.unreadable), 'file')} of the store could not be read: {files}"


def foreign(groups: Iterable[Group]) -> list[str]:
    """A note about the groups of another protocol, if there are any."""
    numbers = former_protocols(groups)
    return [f"{FOREIGN} trained or measured by protocol {numbers}, not compared"] if numbers else []


def made_on(trials: Iterable[MeasuredTrial]) -> str:
    """A sentence for captions: the hardware and the commits of the trials, as far as known."""
    machines = {(trial.device, trial.commit) for trial in trials}
    devices = sorted({device for device, _ in machines if device})
    commits = sorted({commit for _, commit in machines if commit})
    parts = [
        f"hardware: {', '.join(devices)}" if devices else "",
        f"commit: {', '.join(commits)}" if commits else "",
    ]
    text = "; ".join(part for part in parts if part)
    return f"{text[0].upper()}{text[1:]}." if text else ""


def nothing_yet(trials: pa.Table, store: Path | str) -> str:
    """A note that names a command to begin with, for a store with nothing to show."""
    there = ""
    if trials.num_rows:
        there = f" (of {counted(trials.num_rows, 'trial')} none is final and finished)"
    return f"nothing to show in {store} yet{there}; run: {command(store, 'sweep', 'quickstart')}"


def _unfinished(trials: pa.Table) -> list[dict[str, Any]]:
    """The rows that failed or are partial.

    An evaluation that was made again with all of its data has another key; the old row is left out.
    """
    # Masks are several times as quick as filters by expression, which copy every column.
    finished_rows = is_text(trials["status"], "finished")
    columns = [*_NAMED, "role", "status", "suite", "reason", "evaluates"]
    rows = trials.select(columns).filter(pc.invert(finished_rows))
    evaluations = pc.and_(is_text(trials["role"], "evaluation"), finished_rows)
    done = trials.select(["evaluates", "suite"]).filter(evaluations)
    finished = set(zip(done["evaluates"].to_pylist(), done["suite"].to_pylist(), strict=True))
    return [
        row
        for row in rows.to_pylist()
        if row["role"] != "evaluation" or (row["evaluates"], row["suite"]) not in finished
    ]


def _line(row: Mapping[str, Any]) -> str:
    suite = f", {row['suite']}" if row["role"] == "evaluation" else ""
    named = trial_label(*(row[name] for name in _NAMED))
    return f"{named}{suite} ({headline(row['reason']) or 'no reason given'})"


def sources(compared: PaperTable) -> list[str]:
    """The sources behind the marks, and the number of runs behind the numbers of a column."""
    runs, columns = compared.table.runs, map(str, compared.table.columns)
    return [
        *(
            f"{mark} {source.replace('quoted:', 'quoted from ')}"
            for source, mark in compared.table.citations.items()
        ),
        *(f"published, {column}: {runs[column]}" for column in columns if column in runs),
    ]


def released(row: Row, commands: Commands) -> str:
    """The line about a released checkpoint: its name, its pooling, and what evaluates it."""
    cells = [(cell, cell.wanted) for cell in row.cells if cell.wanted]
    wanted, mark = cells[0][1], row.names[0].rpartition(" ")[2]
    pooling = dict(wanted.configuration).get("pooling")
    named = f"{mark} {wanted.encoder}{f', {pooling} pooling' if pooling else ''}"
    lacking = [cell for cell, _ in cells if not cell.ours or cell.is_foreign]
    suites = dict.fromkeys(cell.metric.suite for cell in lacking if cell.metric)
    if not suites:
        return named
    return f"{named}; to evaluate it: {commands.evaluation(wanted, ','.join(suites))}"


def numbers(rows: Iterable[Row]) -> list[str]:
    """Which column has which n, for the rows whose columns have several."""
    notes: dict[str, None] = {}  # a set in the order of the table
    for row in rows:
        columns: dict[str, list[str]] = defaultdict(list)
        for cell in row.cells:
            if cell.published and (n := cell.n) not in (None, "0"):
                columns[str(n)].append(cell.published.column)
        if len(columns) > 1:
            listed = "; ".join(f"{n} in {', '.join(names)}" for n, names in columns.items())
            notes[f"n = {n_text(list(columns))}: {listed}"] = None
    return list(notes)


def marks(cells: Sequence[Cell]) -> list[str]:
    """The meaning of the marks at our numbers, and why some of them have no difference."""
    published = [cell.published for cell in cells if cell.published]
    others = {each.unlike: each.row.label for each in published if each.unlike}
    shown = [cell for cell in cells if cell.ours and cell.published]
    measures = [cell.published.measure for cell in shown if cell.published]
    stand_ins = [each.wanted for each in published if each.wanted and each.wanted.published_encoder]
    encoders = dict.fromkeys(str(wanted.published_encoder) for wanted in stand_ins)
    return [
        *(f"{OTHER_SYSTEM} {label}: {why}; no Δ" for why, label in others.items()),
        *(foreign(cell.group for cell in shown if cell.group) if shown else ()),
        *dict.fromkeys(each.note for each in measures if isinstance(each, Quantity)),
        *(
            f"Ours: on {wanted.encoder} in the place of {', '.join(encoders)}, so without Δ."
            for wanted in stand_ins[:1]
        ),
    ]


def unlike(cells: Iterable[Cell], methods: Collection[str]) -> list[str]:
    """The differences from the paper's set-up in the trials of a table, with their rows.

    methods: the names of the methods that are here; of others nothing is known.
    """
    matched = matched_trials(cell for cell in cells if cell.wanted and cell.wanted.is_here(methods))
    unlike = {wanted: row for wanted, row in matched.items() if unlike_published(wanted, row[1])}
    return [f"Unlike the paper, {labels}: {text}" for text, labels in set_ups(unlike).items()]


def set_ups(matched: Matched) -> dict[str, str]:
    """Differences of trials from the paper, and their steps -> the labels of their rows."""
    rows: dict[str, dict[str, None]] = defaultdict(dict)  # a set in the order of the table
    for wanted, (label, group) in matched.items():
        steps = sorted({trial.steps for trial in group.trials if trial.steps})
        many = [f"{' or '.join(map(str, steps))} steps"] if steps else []
        text = "; ".join([*unlike_published(wanted, group), *many])
        rows[text][f"{label} ({wanted.setting})"] = None
    return {text: ", ".join(labels) for text, labels in rows.items()}


def matched_trials(cells: Iterable[Cell]) -> Matched:
    """Our trials behind the numbers of a table, each once."""
    matched: dict[Wanted, tuple[str, Group]] = {}
    for cell in cells:
        if cell.published and cell.wanted and cell.group and cell.ours:
            matched.setdefault(cell.wanted, (cell.published.row.label, cell.group))
    return matched


def unlike_published(wanted: Wanted, group: Group) -> list[str]:
    """The values that the trials have, and those of the paper in their place.

    What a paper has searched and does not print is one of the values that it has tried.
    """
    sizes = json.loads(group.trials[0].corpora or "{}")
    published = {name: (value,) for name, value in published_values(wanted).items()}
    published |= dict(wanted.searched) if published else {}
    other = [f"encoder {group.encoder} (paper: {wanted.published_encoder})"]
    return [
        *(other if wanted.published_encoder else []),
        *(
            f"{name} {_text(value, sizes)} (paper: {' or '.join(map(_text, published[name]))})"
            for name, value in sorted(group.configuration.items())
            if name in published and name not in _NOT_COMPARED and value not in published[name]
        ),
    ]


def _text(value: Any, sizes: Mapping[str, int] = {}) -> str:
    """A value as `--set` reads it; a corpus with its size, from the trials or as published."""
    corpus = SOURCES.get(value) if isinstance(value, str) else None
    items = sizes.get(str(value)) or (corpus.items if corpus else None)
    size = f", {items:,} items" if items else ""
    return "none" if value is None else f"{file_name(yaml_text(value))}{size}"


def choices(cells: Iterable[Cell]) -> list[str]:
    """Notes about the numbers for which several groups of comparable trials were candidates."""
    return list(
        dict.fromkeys(
            f"{cell.wanted}: {cell.candidates} groups of comparable trials; shown is the one "
            f"with the best mean {DISPLAY.get(cell.group.selects, cell.group.selects)}"
            for cell in cells
            if cell.group and cell.candidates > 1
        )
    )


def filling(compared: PaperTable, commands: Commands) -> list[str]:
    """The command that fills the gaps of a table, and what no command can fill."""
    possible = False
    reasons: dict[str, dict[str, None]] = defaultdict(dict)  # a set in the order of the table
    for cell in compared.cells:
        published, wanted = cell.published, cell.wanted
        if published is None or published.measure is Special.GIVEN:
            continue
        why_not = obstacle(wanted, commands.methods) if wanted else ""
        if wanted and not why_not:
            possible |= cell.group is None or cell.is_foreign or bool(cell.unmeasured)
        if cell.group:
            continue
        if wanted is None and published.value is not None:
            reasons["Quoted only, nothing is run for them"][published.row.label] = None
        elif why_not:
            reasons[f"Not run by the command: {why_not}"][published.row.label] = None
    fill = commands.table("sweep", compared.paper.paper, compared.number)
    return [
        *([f"To fill: {fill}"] if possible else []),
        *(f"{reason}: {'; '.join(labels)}" for reason, labels in sorted(reasons.items())),
    ]
