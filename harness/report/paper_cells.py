"""A published table with our scores: the trials that stand beside each value of the paper."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from harness.data.user_modules import names_of_records
from harness.errors import UserError
from harness.evaluation.catalogue import Metric
from harness.plugin import registry
from harness.plugin.resolution import resolve
from harness.report.answers import Answers
from harness.report.cells import Cell, Published
from harness.report.groups import Group, Score, comparable_groups
from harness.report.matching import Commands, Finder, Found, Wanted, run_of, wanted_for
from harness.report.paper import Paper
from harness.report.published import THIS_PAPER, ReportedRow, ReportedTable
from harness.report.quantities import TEXTS, Column, Costs, Quantity, Special, columns_of
from harness.report.systems import ColumnRun, Released, ReportedRun, TableRuns, load_systems
from harness.report.tables import Row, n_text

OTHER_SYSTEM = "§"
"""The mark at a row whose published number is of another system than ours"""
RELEASED = "Released checkpoints, evaluated here"
"""The heading of the rows of released checkpoints"""


@dataclass(frozen=True)
class ReleasedRow:
    """A checkpoint that the authors of a system released, in a table, as this store measured it."""

    checkpoint: Released
    wanted: Wanted
    """The evaluation of it"""
    mark: str
    """The mark at its row, such as `[3]`, which a line under the table explains"""
    row: Row

    def note(self, commands: Commands) -> str:
        """The line under the table: the checkpoint, its pooling, and what evaluates it."""
        one, cells = self.checkpoint, self.row.cells
        named = f"{self.mark} {one.checkpoint}{f', {one.pooling} pooling' if one.pooling else ''}"
        lacking = [cell for cell in cells if cell.wanted and (not cell.ours or cell.is_foreign)]
        suites = dict.fromkeys(cell.metric.suite for cell in lacking if cell.metric)
        if not suites:
            return named
        evaluation = commands.evaluation(self.wanted.model, ",".join(suites))
        return f"{named}; to evaluate it: {evaluation}"


@dataclass(frozen=True)
class PaperTable:
    """A published table with our scores, before its rows are ranked."""

    paper: Paper
    name: str
    """Its name in the paper's file, such as `table2`"""
    number: str
    table: ReportedTable
    """The table as the paper prints it"""
    title: str
    """The paper, the number of the table, and what it is about"""
    notes: Sequence[str]
    """Lines under it, from `systems.yaml`"""
    marks: Mapping[str, str]
    """The sources of its numbers -> their marks, such as `[2]`"""
    sections: Sequence[tuple[str, Sequence[Row]]]
    """(heading, rows)"""
    cells: Sequence[Cell]
    """The cells of all rows"""
    released: Sequence[ReleasedRow] = ()
    """The released checkpoints of its systems, as the store has measured them"""


class Comparer:
    """Compares published tables with the trials of one store."""

    def __init__(
        self,
        trials: pa.Table,
        encoder: str | None = None,
        *,
        values: Mapping[str, Any] | None = None,
        answers: Answers | None = None,
        plugins: Mapping[str, str] = {},
    ) -> None:
        """Take the rows of a store.

        encoder: that of our trials, in the place of the papers'. values: hyperparameters that all
        our trials must have, where they have them at all. answers: those of the store's models to
        queries; None: they are not asked. plugins: those of a paper of one's own, which read
        `values`, too.
        """
        groups = comparable_groups(trials)
        groups = [group for group in groups if _has(group, values or {}, plugins)]
        self._finder, self._costs = Finder(groups), Costs(trials)
        self.encoder, self._answers = encoder, answers

    def table(self, paper: Paper, name: str) -> PaperTable:
        """The table `name` of a paper. Raises UserError for a row whose system is not listed."""
        table, number = paper.tables[name], name.removeprefix("table")
        full_name, systems = f"{paper.paper}.{name}", paper.runs
        runs = systems.table_runs.get(full_name, TableRuns())
        columns = columns_of(table, systems, full_name)
        marks, cells, sections = citations(table), list[Cell](), []
        for group in table.groups:
            rows = []
            for row in group.rows:
                own = [self._cell(column, group.name, row, marks) for column in columns]
                address = f"{paper.paper}.{number}.{len(cells) // len(columns) + 1}"
                rows.append(_row(own, row, address, table, marks))
                cells += own
            sections.append((group.name, rows))
        title = f"{paper.title}. Table {number}: {table.about}"
        of_paper = systems.papers.get(paper.paper)
        notes = [*runs.notes, *([of_paper] if of_paper else [])]
        released = self._released(table, columns, f"{paper.paper}.{number}")
        return PaperTable(
            paper, name, number, table, title, notes, marks, sections, cells, released
        )

    def figure(self, full_name: str) -> list[tuple[Wanted, Found | None]]:
        """The trials for the points of the figure `<paper>.<figure>`, and those of the store."""
        systems = load_systems()
        figure = systems.figures[full_name]
        points = [{name: value} for name, values in figure.axis.items() for value in values] or [{}]
        wanted = [
            wanted_for(
                row,
                run_of(systems, full_name, row, ColumnRun()),
                ColumnRun(configuration=point),
                encoder=self.encoder,
            )
            for row in figure.rows
            for point in points
        ]
        return [(target, self._finder.find(target)) for target in wanted if target]

    def _cell(
        self, column: Column, heading: str, row: ReportedRow, marks: Mapping[str, str]
    ) -> Cell:
        measure, wanted = column.measure, None
        # A method that needs labels has no number where there are none.
        if measure is not Special.GIVEN and (
            column.fraction or row.value(column.index) is not None
        ):
            run = run_of(column.systems, column.table, row, column.run)
            wanted = wanted_for(row, run, column.run, column.fraction, self.encoder)
        unlike = column.unlike.get(row.system, {}).get(row.setting or "", "") if wanted else ""
        return self._filled(column, heading, row, wanted, unlike, marks)

    def _filled(
        self,
        column: Column,
        heading: str,
        row: ReportedRow,
        wanted: Wanted | None,
        unlike: str = "",
        marks: Mapping[str, str] = {},
    ) -> Cell:
        """The cell of a row with the trials that are wanted for it."""
        index, measure, own = column.index, column.measure, row.origin or THIS_PAPER
        source = row.origins[index] if row.origins else own
        chosen = self._finder.find(wanted) if wanted else None
        return Cell(
            ours=self._ours(column, chosen.group) if chosen else None,
            decimals=column.decimals,
            metric=measure if isinstance(measure, Metric) else None,
            group=chosen.group if chosen else None,
            candidates=chosen.candidates if chosen else 0,
            published=Published(
                heading=heading,
                row=row,
                column=column.heading,
                value=row.value(index),
                printed=row.text(index),
                std=row.std[index] if row.std else None,
                source=source,
                measure=measure,
                unlike=unlike,
                wanted=wanted,
            ),
            citation="" if source == own else marks[source],
        )

    def _ours(self, column: Column, group: Group) -> Score | None:
        """The score or the quantity of our trials that a column shows."""
        measure = column.measure
        if isinstance(measure, Metric):
            return group.score(measure)
        if isinstance(measure, Quantity):
            return self._costs.cell(measure, group.trials)
        if measure is Special.COSINE and self._answers:
            sentence = column.heading.removesuffix(" (gold)")
            cosine = self._answers.cosine(group, column.query, sentence)
            return None if cosine is None else Score(cosine, None, 1)
        return None

    def _released(
        self, table: ReportedTable, columns: Sequence[Column], address: str
    ) -> list[ReleasedRow]:
        """The rows of the released checkpoints of the systems in a table.

        A checkpoint has a row where the table has a row of its system, setting and encoder, and a
        score of one of its suites. address: that of the table, such as `diffcse.1`; the rows are
        numbered behind those of the paper, and their marks behind its marks.
        """
        if table.kind != "scores":
            return []
        marked, made = len(citations(table)), list[ReleasedRow]()
        for one in columns[0].systems.released:
            label = next((row.label for row in table.rows if one.is_of(row)), None)
            if label is None or not any(_is_released_for(column, one) for column in columns):
                continue
            mark, number = f"[{marked + len(made) + 1}]", len(table.rows) + len(made) + 1
            row = ReportedRow(
                label=label,
                system=one.system,
                setting=one.setting,
                encoder=one.encoder,
                origin=one.checkpoint,
            )
            wanted = _evaluation(one, row)
            cells = tuple(
                self._filled(
                    column, RELEASED, row, wanted if _is_released_for(column, one) else None
                )
                for column in columns
            )
            shown = Row(
                names=(f"{label} {mark}",),
                n=n_text([cell.measured.n for cell in cells if cell.ours and cell.measured]),
                cells=cells,
                address=f"{address}.{number}",
                whose="theirs",
            )
            made.append(ReleasedRow(one, wanted, mark, shown))
        return made


def _evaluation(one: Released, row: ReportedRow) -> Wanted:
    """The evaluation of a checkpoint, as `harness eval` stores it."""
    method = "pooling" if one.pooling else "sentence_transformer"
    pooled = {"pooling": one.pooling} if one.pooling else {}
    run = ReportedRun(method=method, configuration=pooled, encoder=one.checkpoint, setting="unsup")
    wanted = wanted_for(row, run)
    assert wanted is not None
    return wanted


def _is_released_for(column: Column, one: Released) -> bool:
    """Whether a column is a score of the checkpoint, and not of other trials of its system."""
    run, measure = column.run, column.measure
    other = run.run or run.setting or run.encoder or run.configuration or column.fraction != 1
    return isinstance(measure, Metric) and measure.suite in one.suites and not other


def _row(
    cells: Sequence[Cell],
    row: ReportedRow,
    address: str,
    table: ReportedTable,
    marks: Mapping[str, str],
) -> Row:
    source = row.origin or THIS_PAPER
    unlike = any(cell.published and cell.published.unlike for cell in cells)
    return Row(
        names=(f"{row.label} {marks[source]}{OTHER_SYSTEM if unlike else ''}",),
        n=n_text([n for cell in cells if (n := trials_text(cell)) is not None]),
        cells=tuple(cells),
        address=address,
        complete=all(
            cell.ours for cell in cells if cell.metric and (cell.number is not None or cell.alone)
        ),
        published_n=str(table.runs.get(row.system, "")) if source == THIS_PAPER else "",
    )


def citations(table: ReportedTable) -> dict[str, str]:
    """The sources of the numbers of a table -> their marks, such as `[2]`."""
    sources = (name for row in table.rows for name in table.sources(row))
    return {name: f"[{number}]" for number, name in enumerate(dict.fromkeys(sources), 1)}


def trials_text(cell: Cell) -> str | None:
    """The number of our trials behind a cell, as text; None where the column needs none."""
    measure = cell.published.measure if cell.published else None
    if measure in TEXTS:
        return None
    if cell.group is None:
        return "0"
    if cell.metric is not None:
        measured = cell.measured
        return measured.n if measured else "0"
    if cell.ours is None:
        return "0"
    return "1" if measure is Special.COSINE else cell.group.n


def _has(group: Group, values: Mapping[str, Any], plugins: Mapping[str, str]) -> bool:
    """Whether trials have these values, read as their method reads them.

    A value that changes nothing beside the others is that of its default, and does not count.
    """
    own = group.configuration
    typed = {name: value for name, value in values.items() if name in own}
    if not typed:
        return True
    try:
        with names_of_records():
            plugin = registry.load(plugins.get(group.method, group.method))
            wanted = resolve(plugin, {**own, **typed}).deciding()
    except UserError:  # there is no such method here, or it does not take the values
        return False
    return all(own[name] == wanted.get(name) for name in typed)
