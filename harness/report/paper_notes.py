"""The notes under a published table: sources, marks, set-ups, choices, and how it is filled."""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from harness.data.corpora import SOURCES
from harness.evaluation.catalogue import DISPLAY
from harness.report.cells import Cell
from harness.report.groups import Group
from harness.report.matching import Commands, Wanted, published_values, yaml_text
from harness.report.notes import foreign
from harness.report.paper_cells import OTHER_SYSTEM, PaperTable
from harness.report.quantities import Quantity, Special
from harness.report.row_names import file_name
from harness.report.tables import Row, n_text

_NOT_COMPARED = {"setting", "encoder", "subset"}
"""Fields of a configuration that rows have anyway, or that are drawn"""
Matched = Mapping[Wanted, tuple[str, Group]]
"""The trials that reproduce a number -> the label of their first row, and those of the store"""


def source_notes(compared: PaperTable) -> list[str]:
    """The sources behind the marks, and the number of runs behind the numbers of a column."""
    runs, columns = compared.table.runs, map(str, compared.table.columns)
    return [
        *(
            f"{mark} {source.replace('quoted:', 'quoted from ')}"
            for source, mark in compared.table.citations.items()
        ),
        *(f"published, {column}: {runs[column]}" for column in columns if column in runs),
    ]


def n_notes(rows: Iterable[Row]) -> list[str]:
    """Which column has which n, for the rows whose columns have several."""
    notes: dict[str, None] = {}  # a set in the order of the table
    for row in rows:
        columns: dict[str, list[str]] = defaultdict(list)
        for cell in row.cells:
            if cell.published and cell.n not in (None, "0"):
                columns[str(cell.n)].append(cell.published.column)
        if len(columns) > 1:
            listed = "; ".join(f"{n} in {', '.join(names)}" for n, names in columns.items())
            notes[f"n = {n_text(list(columns))}: {listed}"] = None
    return list(notes)


def mark_notes(cells: Sequence[Cell]) -> list[str]:
    """The meaning of the marks at our numbers, and why some of them have no difference."""
    published = [cell.published for cell in cells if cell.published]
    others = {each.unlike: each.row.label for each in published if each.unlike}
    shown = [cell for cell in cells if cell.ours and cell.published]
    measures = [cell.published.measure for cell in shown if cell.published]
    stand_ins = [each.wanted for each in published if each.wanted and each.wanted.published_encoder]
    encoders = dict.fromkeys(str(wanted.published_encoder) for wanted in stand_ins)
    return [
        *(f"{OTHER_SYSTEM} {label}: {why}; no Δ" for why, label in others.items()),
        *foreign(cell.group for cell in shown if cell.group),
        *dict.fromkeys(each.note for each in measures if isinstance(each, Quantity)),
        *(
            f"Ours: on {wanted.encoder} in the place of {', '.join(encoders)}, so without Δ."
            for wanted in stand_ins[:1]
        ),
    ]


def unlike_notes(cells: Iterable[Cell], methods: Collection[str]) -> list[str]:
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
    """The values that the trials have, and those of the paper in their place."""
    published, sizes = published_values(wanted), json.loads(group.trials[0].corpora or "{}")
    other = [f"encoder {group.encoder} (paper: {wanted.published_encoder})"]
    return [
        *(other if wanted.published_encoder else []),
        *(
            f"{name} {_text(value, sizes)} (paper: {_text(published[name])})"
            for name, value in sorted(group.configuration.items())
            if name in published and name not in _NOT_COMPARED and value != published[name]
        ),
    ]


def _text(value: Any, sizes: Mapping[str, int] = {}) -> str:
    """A value as `--set` reads it; a corpus with its size, from the trials or as published."""
    corpus = SOURCES.get(value) if isinstance(value, str) else None
    items = sizes.get(str(value)) or (corpus.items if corpus else None)
    size = f", {items:,} items" if items else ""
    return "none" if value is None else f"{file_name(yaml_text(value))}{size}"


def choice_notes(cells: Iterable[Cell]) -> list[str]:
    """Notes about the numbers for which several groups of comparable trials were candidates."""
    return list(
        dict.fromkeys(
            f"{cell.wanted}: {cell.candidates} groups of comparable trials; shown is the one "
            f"with the best mean {DISPLAY.get(cell.group.selects, cell.group.selects)}"
            for cell in cells
            if cell.group and cell.candidates > 1
        )
    )


def filling_notes(compared: PaperTable, commands: Commands, encoder: str | None) -> list[str]:
    """The command that fills the gaps of a table, and what no command can fill."""
    possible = False
    reasons: dict[str, dict[str, None]] = defaultdict(dict)  # a set in the order of the table
    for cell in compared.cells:
        published, wanted = cell.published, cell.wanted
        if published is None or published.measure is Special.GIVEN:
            continue
        obstacle = commands.obstacle(wanted) if wanted else ""
        if wanted and not obstacle:
            possible |= cell.group is None or cell.is_foreign or bool(cell.unmeasured)
        if cell.group:
            continue
        if wanted is None and published.value is not None:
            reasons["Quoted only, nothing is run for them"][published.row.label] = None
        elif obstacle:
            reasons[f"Not run by the command: {obstacle}"][published.row.label] = None
    command = commands.table(compared.paper.paper, compared.number, encoder)
    return [
        *([f"To fill: {command}"] if possible else []),
        *(f"{reason}: {'; '.join(labels)}" for reason, labels in sorted(reasons.items())),
    ]
