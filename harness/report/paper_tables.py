"""The tables of a paper: each published value with ours below it, in a table of its kind."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from harness.errors import UserError, suggest
from harness.evaluation.catalogue import CARDS, headed
from harness.report.answers import Answers
from harness.report.cells import value_text
from harness.report.matching import Commands, command, published_values
from harness.report.notes import (
    choice_notes,
    filling_notes,
    leak_notes,
    made_on,
    mark_notes,
    n_notes,
    released_note,
    source_notes,
    unlike_notes,
    unreadable,
)
from harness.report.paper import Paper
from harness.report.paper_cells import RELEASED, Comparer, PaperTable
from harness.report.papers import load_paper
from harness.report.published import QUOTED, THIS_PAPER
from harness.report.records import paper_records
from harness.report.tables import Line, Row, Section, Table, over_subsets, ranked
from harness.trials.record_files import Reading
from harness.trials.store_folders import store_option

QUERY = "query: "
"""The beginning of a heading that names the query of its rows"""
HYPERPARAMETERS_CAPTION = (
    "Chosen hyperparameters; ours: what the method does where nothing is set (its published values "
    "and defaults); ≠: not the paper's value."
)
EXAMPLES_CAPTION = (
    "The sentences of STS-B test nearest to the query, nearest first; ours: of the trial with the "
    "best dev score whose weights the store has."
)


def paper_tables(
    reading: Reading,
    name: str,
    commands: Commands,
    number: str | None = None,
    *,
    encoder: str | None = None,
    answers: Answers | None = None,
    values: Mapping[str, Any] | None = None,
) -> list[Table]:
    """The tables of the paper `name`, with ours below the published values.

    number: of a table; None: all of them. encoder: that of our trials, in the place of the paper's.
    answers: those of the store's models to queries; None: they are not asked. values:
    hyperparameters that all our trials have, where they have them at all. Raises UserError for a
    paper without reported numbers, and for a table that it does not have.
    """
    paper = load_paper(name)
    comparer = Comparer(
        reading.table, encoder, answers=answers, values=values, plugins=paper.plugins
    )
    tables = []
    for name in table_names(paper, number):
        compared = comparer.table(paper, name)
        if compared.table.kind == "hyperparameters":
            tables.append(_hyperparameter_table(compared, commands))
        elif compared.table.kind == "examples":
            tables.append(_example_table(compared, commands, encoder, answers))
        else:
            tables.append(_score_table(compared, commands, encoder))
    last = replace(tables[-1], notes=[*tables[-1].notes, *unreadable(reading)])
    return [*tables[:-1], last]


def table_names(paper: Paper, number: str | None) -> list[str]:
    """The name of a table by its number, or of all tables. Raises UserError for an unknown one."""
    if number is None:
        return list(paper.shown)
    if (name := f"table{number}") not in paper.shown:
        raise UserError(f"{paper.paper} has no Table {number}{suggest(number, paper.numbers)}")
    return [name]


def _score_table(compared: PaperTable, commands: Commands, encoder: str | None) -> Table:
    columns = [str(column) for column in compared.table.columns]
    metrics = [cell.metric for cell in compared.cells[: len(columns)]]
    directions = [
        CARDS[metric.suite].directions.get(metric.name, 1) if metric else 0 for metric in metrics
    ]

    sections = [
        Section(
            heading,
            ranked([_filled(row, commands) for row in rows], directions, commands.store),
        )
        for heading, rows in compared.sections
    ]
    rows = [row for section in sections for row in section.rows if isinstance(row, Row)]
    cells = [cell for row in rows for cell in row.cells]
    if compared.released:
        sections.append(Section(RELEASED, compared.released))
    all_cells = [*cells, *(cell for row in compared.released for cell in row.cells)]
    trials = (trial for cell in all_cells if cell.group and cell.ours for trial in cell.ours.trials)
    metric, protocol = compared.table.metric, CARDS[headed(compared.table.columns)].protocol
    caption = [
        f"{metric[0].upper()}{metric[1:]}; ours: mean±sample std over n seeds, "
        "selected on dev, test never selects; Δ = ours - published.",
        f"Ours: {protocol}" if protocol else "",
        over_subsets(row.n for row in rows)
        if any(cell.group and cell.group.subsets > 1 for cell in cells)
        else "",
        made_on(trials),
    ]
    return Table(
        title=compared.title,
        columns=["", "", "n", *columns],
        text_columns=2,
        sections=sections,
        caption=" ".join(filter(None, caption)),
        notes=[
            *source_notes(compared),
            *(released_note(row, commands) for row in compared.released),
            *n_notes(rows),
            *compared.notes,
            *mark_notes(all_cells),
            *unlike_notes(cells, commands.methods),
            *leak_notes(rows),
            *choice_notes(all_cells),
            *filling_notes(compared, commands, encoder),
        ],
        make_records=lambda: paper_records(compared, cells, commands, ranked=True),
        metrics=columns,
        averages=[column for column in columns if column == "Avg."],
        show_options=[*(["--encoder", encoder] if encoder else []), *store_option(commands.store)],
    )


def _filled(row: Row, commands: Commands) -> Row:
    """The row, which says of each cell whether a command can fill it, and of none why not."""
    runnable = [bool(cell.wanted and not commands.obstacle(cell.wanted)) for cell in row.cells]
    cells = []
    for cell, can_run in zip(row.cells, runnable, strict=True):
        shown = cell.number is not None or cell.alone
        cells.append(replace(cell, expected=shown and (cell.ours is not None or can_run)))
    wanted = [cell.wanted for cell in cells if cell.wanted]
    without = "no method" if wanted else "quoted only"
    if any(cell.published.row.system == QUOTED for cell in cells if cell.published):
        without = ""  # the row itself says that it is only quoted
    if any(target.is_here(commands.methods) for target in wanted):
        without = "" if any(runnable) else "needs input"
    return replace(row, cells=tuple(cells), without=without)


def _hyperparameter_table(compared: PaperTable, commands: Commands) -> Table:
    """The hyperparameters of a paper, with the values that our method has where none is set."""
    ours: list[str] = []
    shortfalls, sections = [], []
    for heading, rows in compared.sections:
        lines: list[Line] = []
        for row in rows:
            published = [cell.published for cell in row.cells if cell.published]
            reported = published[0].row
            texts = ["" if one.value is None else value_text(one.value) for one in published]
            own = []
            for one, text in zip(published, texts, strict=True):
                default = None
                if one.wanted and one.wanted.is_here(commands.methods):
                    default = published_values(one.wanted).get(str(reported.field))
                own.append("" if default is None else value_text(default))
                if own[-1] and text and own[-1] != text:
                    shortfalls.append(
                        f"{compared.paper.paper}.{compared.number} {reported.label}, "
                        f"{one.column}: the default is {own[-1]}, not {text}"
                    )
            ours += own
            marked = (
                f"{mine} ≠" if mine and text and mine != text else mine
                for mine, text in zip(own, texts, strict=True)
            )
            label = f"{reported.label} {compared.table.citations[reported.origin or THIS_PAPER]}"
            lines += [
                [label, "published", *texts],
                ["", "ours" if any(own) else "no method", *marked],
            ]
        sections.append(Section(heading, lines))
    return Table(
        title=compared.title,
        columns=["", "", *map(str, compared.table.columns)],
        text_columns=2,
        sections=sections,
        caption=HYPERPARAMETERS_CAPTION,
        notes=[*source_notes(compared), *compared.notes],
        make_records=lambda: paper_records(compared, compared.cells, commands, ours),
        shortfalls=shortfalls,
    )


def _example_table(
    compared: PaperTable, commands: Commands, encoder: str | None, answers: Answers | None
) -> Table:
    """The sentences that a paper's models retrieve, with those of ours."""
    ours: list[str] = []
    shortfalls, sections = [], []
    for heading, rows in compared.sections:
        query = _query(compared, heading)
        for row in rows:
            published = [cell.published for cell in row.cells if cell.published]
            group, label = row.cells[0].group, published[0].row.label
            own = answers.nearest(group, query, len(published)) if answers and group else []
            texts = [*own, *[""] * (len(published) - len(own))]
            ours += texts
            lines = [
                [str(rank), str(each.value), text]
                for rank, (each, text) in enumerate(zip(published, texts, strict=True), 1)
            ]
            sections.append(Section(f"{label}, query: {query}", lines))
            if published[0].wanted and not commands.obstacle(published[0].wanted):
                shortfalls += [
                    f"{compared.paper.paper}.{compared.number} {label}, query: {query}, rank "
                    f"{rank} is missing"
                    for rank in range(len(own) + 1, len(published) + 1)
                ]
    return Table(
        title=compared.title,
        columns=["", "published", "ours"],
        text_columns=3,
        sections=sections,
        caption=EXAMPLES_CAPTION,
        notes=[
            *([f"The gold answer: {compared.table.gold}"] if compared.table.gold else []),
            *compared.notes,
            *mark_notes(compared.cells),
            *choice_notes(compared.cells),
            *_asking(compared, commands, encoder, answers),
            *filling_notes(compared, commands, encoder),
        ],
        make_records=lambda: paper_records(compared, compared.cells, commands, ours),
        shortfalls=shortfalls,
    )


def _query(compared: PaperTable, heading: str) -> str:
    """The query of a table, or that of a heading."""
    return heading.removeprefix(QUERY) if heading.startswith(QUERY) else str(compared.table.query)


def _asking(
    compared: PaperTable, commands: Commands, encoder: str | None, answers: Answers | None
) -> list[str]:
    """Notes: why a model of the store was not asked, and the command that asks it."""
    groups = [(cell.group, cell.published) for cell in compared.cells if cell.group]
    if answers is None:
        words = ["--paper", compared.paper.paper, "--table", compared.number]
        words += ["--encoder", encoder] if encoder else []
        ask = command(commands.store, "table", *words)
        return [f"To ask the store's models: {ask}"] if groups else []
    notes: dict[str, None] = {}  # a set in the order of the table
    for group, published in groups:
        best = group.best_trial(group.trials)
        if best is None or published is None or answers.can_ask(group):
            continue
        query, count = _query(compared, published.heading), str(len(compared.table.columns))
        train = command(commands.store, "retrieve", best.key[:10], query, "--count", count)
        why = answers.problems.get(best.key, "its weights are not kept")
        notes[f"{published.row.label}: {why}; to train and ask it again: {train}"] = None
    return list(notes)
