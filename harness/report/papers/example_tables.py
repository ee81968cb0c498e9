"""Published tables of retrieved sentences beside those that our chosen models retrieve."""

import shlex

from harness.report.papers.paper_notes import choice_notes, filling_notes, mark_notes
from harness.report.papers.paper_records import paper_records
from harness.report.published.answers import Answers, chosen
from harness.report.published.commands import Commands
from harness.report.published.compared import ComparedNumber, ComparedTable
from harness.report.published.systems import load_systems
from harness.report.sheets.rows import SheetLine
from harness.report.sheets.sheet import Section, Sheet
from harness.trials.store_folders import store_option

QUERY = "query: "
"""How a heading begins that names the query of its rows"""
EXAMPLES_CAPTION = (
    "The sentences of STS-B test nearest to the query, nearest first; ours: of the trial with the "
    "best dev score whose weights the store has."
)


def example_sheet(
    table: ComparedTable, commands: Commands, encoder: str | None, answers: Answers | None
) -> Sheet:
    """The sentences that a paper's models retrieve, with those of ours."""
    numbers = list(table.numbers)
    ours: dict[int, str] = {}
    sections, place = [], 0
    shortfalls: list[str] = []
    for heading, rows in table.sections:
        query = _query(table, heading)
        for row in rows:
            found = _retrieved(row, query, answers)
            ours |= {place + rank: text for rank, text in enumerate(found)}
            sections.append(Section(f"{row[0].row.label}, query: {query}", _lines(row, found)))
            place += len(row)
            if row[0].wanted and not commands.obstacle(row[0].wanted):
                shortfalls += [
                    f"{table.paper.paper}.{table.number} {row[0].row.label}, query: {query}, rank "
                    f"{rank} is missing"
                    for rank in range(len(found) + 1, len(row) + 1)
                ]
    return Sheet(
        title=table.title,
        columns=["", "published", "ours"],
        text_columns=3,
        sections=sections,
        caption=EXAMPLES_CAPTION,
        notes=[
            *([f"The gold answer: {table.table.gold}"] if table.table.gold else []),
            *load_systems().notes(table.paper.paper, table.name),
            *mark_notes(numbers),
            *choice_notes(numbers),
            *_asking(table, commands, encoder, answers),
            *filling_notes(table, commands, encoder),
        ],
        make_records=lambda: paper_records(table, commands, ours),
        shortfalls=shortfalls,
    )


def _query(table: ComparedTable, heading: str) -> str:
    """The query of a table, or that of a heading."""
    return heading.removeprefix(QUERY) if heading.startswith(QUERY) else str(table.table.query)


def _retrieved(row: list[ComparedNumber], query: str, answers: Answers | None) -> list[str]:
    if answers is None or row[0].found is None:
        return []
    return answers.nearest(row[0].found.group, query, len(row))


def _lines(row: list[ComparedNumber], ours: list[str]) -> list[SheetLine]:
    return [
        [str(rank), str(each.value), ours[rank - 1] if rank <= len(ours) else ""]
        for rank, each in enumerate(row, start=1)
    ]


def _asking(
    table: ComparedTable, commands: Commands, encoder: str | None, answers: Answers | None
) -> list[str]:
    """Notes: why a model of the store was not asked, and the command that asks it."""
    if answers is None:
        command = ["harness", "table", "--paper", table.paper.paper, "--table", table.number]
        models_there = any(each.found for each in table.numbers)
        command += ["--encoder", encoder] if encoder else []
        ask = shlex.join([*command, *store_option(commands.store)])
        return [f"To ask the store's models: {ask}"] if models_there else []
    notes: dict[str, None] = {}  # a set in the order of the table
    for each in table.numbers:
        best = chosen(each.found.group, each.found.group.trials) if each.found else None
        if each.found is None or best is None or answers.can_ask(each.found.group):
            continue
        words = ["harness", "retrieve", best.key[:10], _query(table, each.group)]
        words += ["--count", str(len(table.table.columns)), *store_option(commands.store)]
        why = answers.problems.get(best.key, "its weights are not kept")
        notes[f"{each.row.label}: {why}; to train and ask it again: {shlex.join(words)}"] = None
    return list(notes)
