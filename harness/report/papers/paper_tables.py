"""The tables of a paper: each published number, and ours below it."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import count
from typing import Any

from harness.errors import UserError, suggest
from harness.evaluation.catalogue import CARDS
from harness.report.measured.measured_trials import MeasuredTrial
from harness.report.papers.example_tables import example_sheet
from harness.report.papers.hyperparameter_tables import hyperparameter_sheet
from harness.report.papers.paper_notes import (
    OTHER_SYSTEM,
    Sources,
    choice_notes,
    filling_notes,
    mark_notes,
    n_notes,
)
from harness.report.papers.paper_records import paper_records
from harness.report.papers.setups import unlike_notes
from harness.report.published.answers import Answers
from harness.report.published.commands import Commands
from harness.report.published.compared import ComparedNumber, ComparedTable
from harness.report.published.comparison import Comparer
from harness.report.published.reported import Paper, load_paper
from harness.report.published.systems import load_systems
from harness.report.sheets.leaks import leak_notes, leaks_of
from harness.report.sheets.notes import made_on, unreadable
from harness.report.sheets.ranking import ranked
from harness.report.sheets.rows import FOREIGN, ComparedRow, SheetCell, n_text
from harness.report.sheets.sheet import OVER_SUBSETS, Section, Sheet, best_of
from harness.trials.record_files import Reading
from harness.trials.store_folders import store_option


def paper_sheets(
    reading: Reading,
    name: str,
    commands: Commands,
    number: str | None = None,
    *,
    encoder: str | None = None,
    answers: Answers | None = None,
    values: Mapping[str, Any] | None = None,
) -> list[Sheet]:
    """The tables of the paper `name`, with ours below what is published.

    number: of a table; None: all of them. encoder: that of our trials, in the place of the paper's.
    answers: what the store's models answer to queries; None: they are not asked. values:
    hyperparameters that all our trials have, where they have them at all. Raises UserError for a
    paper without reported numbers, and for a table that it does not have.
    """
    paper = load_paper(name)
    comparer = Comparer(reading.table, encoder, answers=answers, values=values)
    tables = [comparer.table(paper, each) for each in table_names(paper, number)]
    sheets = [paper_sheet(table, commands, encoder=encoder, answers=answers) for table in tables]
    last = replace(sheets[-1], notes=[*sheets[-1].notes, *unreadable(reading)])
    return [*sheets[:-1], last]


def table_names(paper: Paper, number: str | None) -> list[str]:
    """The name of a table by its number, or of all tables. Raises UserError for an unknown one."""
    if number is None:
        return list(paper.shown)
    if number not in paper.numbers:
        raise UserError(
            f"{paper.paper} has no Table {number}{suggest(number, paper.numbers)}: "
            f"its tables are {', '.join(paper.numbers)}"
        )
    return [paper.numbers[number]]


def paper_sheet(
    table: ComparedTable,
    commands: Commands,
    *,
    encoder: str | None = None,
    answers: Answers | None = None,
) -> Sheet:
    """A published table with ours, as a sheet of its kind."""
    if table.table.kind == "hyperparameters":
        return hyperparameter_sheet(table, commands)
    if table.table.kind == "examples":
        return example_sheet(table, commands, encoder, answers)
    return _ScoreSheet(table, commands, encoder).sheet()


class _ScoreSheet:
    """A published table of numbers, with ours."""

    def __init__(self, table: ComparedTable, commands: Commands, encoder: str | None) -> None:
        self.table, self.commands, self.encoder = table, commands, encoder
        self.numbers, self.sources = list(table.numbers), Sources(table)

    def sheet(self) -> Sheet:
        """The table as a sheet, which can be rendered."""
        sections = self._sections()
        rows = [row for each in sections for row in each.rows if isinstance(row, ComparedRow)]
        columns = [str(column) for column in self.table.table.columns]
        return Sheet(
            title=self.table.title,
            columns=["", "", "n", *columns],
            text_columns=2,
            sections=sections,
            caption=" ".join(filter(None, [_caption(self.table), made_on(self._trials())])),
            notes=[
                *self.sources.notes,
                *n_notes(self.table.rows),
                *load_systems().notes(self.table.paper.paper, self.table.name),
                *mark_notes(self.numbers),
                *unlike_notes(self.numbers, self.commands.methods),
                *leak_notes(rows),
                *choice_notes(self.numbers),
                *filling_notes(self.table, self.commands, self.encoder),
            ],
            make_records=lambda: paper_records(self.table, self.commands, best=best_of(rows)),
            metrics=columns,
            averages=[column for column in columns if column == "Avg."],
            show_options=[
                *(["--encoder", self.encoder] if self.encoder else []),
                *store_option(self.commands.store),
            ],
        )

    def _trials(self) -> Iterator[MeasuredTrial]:
        return (
            trial for each in self.numbers if each.found and each.cell for trial in each.cell.trials
        )

    def _sections(self) -> list[Section]:
        directions, places = self._directions(), count(1)
        headings = [str(column) for column in self.table.table.columns]
        average = next(
            (at for at, name in enumerate(headings) if name == "Avg." and directions[at]), None
        )
        return [
            Section(
                heading,
                ranked(
                    [self._row(row, next(places)) for row in rows],
                    directions,
                    average=average,
                    metrics=[each.metric for each in rows[0]],
                    store=self.commands.store,
                ),
            )
            for heading, rows in self.table.sections
        ]

    def _directions(self) -> list[int]:
        """For each column, whether a higher score is better; only scores are ranked."""
        return [
            CARDS[each.metric.suite].directions.get(each.metric.name, 1) if each.metric else 0
            for each in self.table.sections[0][1][0]
        ]

    def _row(self, row: list[ComparedNumber], place: int) -> ComparedRow:
        reported = row[0].row
        own = reported.origin == "this paper"
        return ComparedRow(
            names=(
                f"{reported.label} {self.sources.mark(reported.origin)}"
                f"{OTHER_SYSTEM if any(each.unlike for each in row) else ''}",
            ),
            n=_n(row),
            cells=tuple(map(self._cell, row)),
            address=f"{self.table.paper.paper}.{self.table.number}.{place}",
            complete=all(each.cell for each in row if each.metric and each.published is not None),
            # What was measured by a stand-in is compared with its like alone.
            block=("stand-in",) if any(each.stands_in for each in row) else (),
            published_n=str(self.table.table.runs.get(reported.system, "")) if own else "",
            without=self._why_empty(row),
        )

    def _cell(self, each: ComparedNumber) -> SheetCell:
        numeric = each.published is not None
        return SheetCell(
            score=each.cell,
            decimals=each.decimals,
            published=each.published,
            published_std=each.published_std,
            printed=each.printed,
            source="" if each.origin == reported_origin(each) else self.sources.mark(each.origin),
            mark=("*" if each.stands_in else "") + (FOREIGN if each.foreign else ""),
            leaks=leaks_of(each.cell, each.metric),
            comparable=not each.foreign,
            why_not=each.why_not,
            expected=numeric and self._can_be_filled(each),
        )

    def _can_be_filled(self, each: ComparedNumber) -> bool:
        """Whether a command of ours fills a cell, or trials of ours fill it already."""
        return bool(each.cell or (each.wanted and not self.commands.obstacle(each.wanted)))

    def _why_empty(self, row: list[ComparedNumber]) -> str:
        """Why nobody can fill a row by a command: it is only quoted, or something is missing."""
        wanted = [each.wanted for each in row if each.wanted]
        if not wanted:
            return "quoted only"
        if not {each.method for each in wanted} & set(self.commands.methods):
            return "no method"
        return "" if any(not self.commands.obstacle(each) for each in wanted) else "needs input"


def reported_origin(each: ComparedNumber) -> str:
    """The source of a row; what the paper does not say is its own."""
    return each.row.origin or "this paper"


def _n(row: list[ComparedNumber]) -> str:
    """The n of the columns, each once; columns without a score of ours say it by being empty."""
    return n_text([each.n for each in row if each.n is not None])


def _caption(table: ComparedTable) -> str:
    metric, protocol = table.table.metric, CARDS[table.table.suite].protocol
    parts = [
        f"{metric[0].upper()}{metric[1:]}; ours: mean±sample std over n seeds, "
        "selected on dev, test never selects; Δ = ours - published.",
        f"Ours: {protocol}" if protocol else "",
        OVER_SUBSETS if table.table.fractions else "",
    ]
    return " ".join(part for part in parts if part)
