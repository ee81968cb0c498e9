"""The tables of a paper: each published value with ours below it, in a table of its kind."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from harness.evaluation.catalogue import CARDS, headed
from harness.report import notes
from harness.report.cells import value_text
from harness.report.matching import Commands, command, obstacle, published_values
from harness.report.paper import Paper
from harness.report.paper_cells import RELEASED, Answers, Comparer, PaperTable
from harness.report.papers import table_names
from harness.report.published import THIS_PAPER
from harness.report.records import paper_records
from harness.report.tables import Line, Section, Table, over_subsets, ranked
from harness.trials.record_files import Reading

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
    paper: Paper,
    commands: Commands,
    number: str | None = None,
    *,
    answers: Answers | None = None,
    values: Mapping[str, Any] | None = None,
) -> list[Table]:
    """The tables of a paper, with ours below the published values.

    number: of a table; None: all of them. answers: those of the store's models to queries; None:
    they are not asked. values: hyperparameters that all our trials have, where they have them at
    all. Raises UserError for a table that the paper does not have.
    """
    comparer = Comparer(
        reading.table,
        commands.encoder,
        methods=commands.methods,
        answers=answers,
        values=values,
        plugins=paper.plugins if values else {},
    )
    tables = []
    for name in table_names(paper, number):
        compared = comparer.table(paper, name)
        if compared.table.kind == "hyperparameters":
            tables.append(_hyperparameter_table(compared, commands))
        elif compared.table.kind == "examples":
            tables.append(_example_table(compared, commands, answers))
        else:
            tables.append(_score_table(compared, commands))
    if reading.unreadable:
        below = [*tables[-1].notes, notes.unreadable(reading)]
        tables[-1] = replace(tables[-1], notes=below)
    return tables


def _score_table(compared: PaperTable, commands: Commands) -> Table:
    columns, metric = [str(column) for column in compared.table.columns], compared.table.metric
    sections, numbers, of_trials = compared.sections, list[str](), list[str]()
    rows = [row for _, own in sections for row in own]
    cells = [*compared.cells, *(cell for row in compared.released for cell in row.cells)]
    protocols = [CARDS[suite].protocol for suite in headed(compared.table.columns)]
    caption = [
        f"{metric[0].upper()}{metric[1:]}; ours: mean±sample std over n seeds, "
        "selected on dev, test never selects; Δ = ours - published.",
        *(f"Ours: {protocol}" for protocol in protocols if protocol),
    ]
    if any(cell.group for cell in cells):
        metrics = [cell.metric for cell in compared.cells[: len(columns)]]
        directions = [
            CARDS[each.suite].directions.get(each.name, 1) if each else 0 for each in metrics
        ]
        sections = [(heading, ranked(own, directions, commands.store)) for heading, own in sections]
        if any(cell.group and cell.group.subsets > 1 for cell in compared.cells):
            caption.append(over_subsets(row.n for row in rows))
        scores = [cell.ours for cell in cells if cell.group and cell.ours]
        caption.append(notes.made_on(trial for score in scores for trial in score.trials))
        numbers = notes.numbers(rows)
        unlike = notes.unlike(compared.cells, commands.methods)
        of_trials = [*unlike, *notes.leaks(rows), *notes.choices(cells)]
    released = [(RELEASED, compared.released)] if compared.released else []
    shown = [cell for _, own in sections for row in own for cell in row.cells]
    return Table(
        title=compared.title,
        columns=["", "", "n", *columns],
        text_columns=2,
        sections=[Section(*section) for section in (*sections, *released)],
        caption=" ".join(filter(None, caption)),
        notes=[
            *notes.sources(compared),
            *(notes.released(row, commands) for row in compared.released),
            *numbers,
            *compared.notes,
            *notes.marks(cells),
            *of_trials,
            *notes.filling(compared, commands),
        ],
        make_records=lambda: paper_records(compared, shown, commands, ranked=True),
        metrics=columns,
        averages=[column for column in columns if column == "Avg."],
        show_options=commands.options,
    )


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
        notes=[*notes.sources(compared), *compared.notes],
        make_records=lambda: paper_records(compared, compared.cells, commands, ours),
        shortfalls=shortfalls,
    )


def _example_table(compared: PaperTable, commands: Commands, answers: Answers | None) -> Table:
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
            wanted = published[0].wanted
            if wanted and not obstacle(wanted, commands.methods):
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
            *notes.marks(compared.cells),
            *notes.choices(compared.cells),
            *_asking(compared, commands, answers),
            *notes.filling(compared, commands),
        ],
        make_records=lambda: paper_records(compared, compared.cells, commands, ours),
        shortfalls=shortfalls,
    )


def _query(compared: PaperTable, heading: str) -> str:
    """The query of a table, or that of a heading."""
    return heading.removeprefix(QUERY) if heading.startswith(QUERY) else str(compared.table.query)


def _asking(compared: PaperTable, commands: Commands, answers: Answers | None) -> list[str]:
    """Notes: why a model of the store was not asked, and the command that asks it."""
    groups = [(cell.group, cell.published) for cell in compared.cells if cell.group]
    if answers is None:
        ask = commands.table("table", compared.paper.paper, compared.number)
        return [f"To ask the store's models: {ask}"] if groups else []
    why_not: dict[str, None] = {}  # a set in the order of the table
    for group, published in groups:
        best = group.best_trial(group.trials)
        if best is None or published is None or answers.can_ask(group):
            continue
        query, count = _query(compared, published.heading), str(len(compared.table.columns))
        train = command(commands.store, "retrieve", best.key[:10], query, "--count", count)
        why = answers.problems.get(best.key, "its weights are not kept")
        why_not[f"{published.row.label}: {why}; to train and ask it again: {train}"] = None
    return list(why_not)
