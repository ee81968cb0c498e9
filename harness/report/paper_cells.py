"""A published table with our scores: the trials that stand beside each value of the paper."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from harness.data.user_modules import names_of_records
from harness.errors import UserError
from harness.evaluation.catalogue import Metric
from harness.plugin import registry
from harness.plugin.resolution import resolve
from harness.report.cells import Cell, Published
from harness.report.groups import Group, Score, comparable_groups
from harness.report.matching import Finder, Found, Wanted, run_of, wanted_for
from harness.report.measured_trials import MeasuredTrial
from harness.report.paper_columns import Column, columns_of
from harness.report.published import (
    THIS_PAPER,
    ColumnRun,
    Paper,
    ReportedRow,
    ReportedTable,
    TableRuns,
    load_systems,
)
from harness.report.quantities import TEXTS, Costs, Quantity, Special
from harness.report.released_rows import ReleasedRow, released_rows
from harness.report.tables import Row, n_text
from harness.trials.store import Store

if TYPE_CHECKING:
    from harness.trials.evaluate import SentenceModel

OTHER_SYSTEM = "§"
"""The mark at a row whose published number is of another system than ours"""


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
        answers: "Answers | None" = None,
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
        address = f"{paper.paper}.{number}"
        released = released_rows(table, columns, systems, self._finder, address)
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
        index, measure = column.index, column.measure
        source = str(row.origins[index] if row.origins else row.origin or THIS_PAPER)
        wanted = None
        # A method that needs labels has no number where there are none.
        if measure is not Special.GIVEN and (column.fraction or row.value(index) is not None):
            run = run_of(column.systems, column.table, row, column.run)
            wanted = wanted_for(row, run, column.run, column.fraction, self.encoder)
        chosen = self._finder.find(wanted) if wanted else None
        published = Published(
            heading=heading,
            row=row,
            column=column.heading,
            value=row.value(index),
            printed=row.text(index),
            std=row.std[index] if row.std else None,
            source=source,
            measure=measure,
            unlike=column.unlike.get(row.system, {}).get(row.setting or "", "") if wanted else "",
            wanted=wanted,
        )
        group = chosen.group if chosen else None
        return Cell(
            ours=self._ours(column, group) if group else None,
            decimals=column.decimals,
            metric=measure if isinstance(measure, Metric) else None,
            group=group,
            candidates=chosen.candidates if chosen else 0,
            published=published,
            citation="" if source == (row.origin or THIS_PAPER) else marks[source],
        )

    def _ours(self, column: Column, group: Group) -> Score | None:
        """The score or the quantity of our trials that a column shows."""
        measure = column.measure
        if isinstance(measure, Metric):
            part = group.measured(measure.suite)
            if part is None:
                return None
            return (part.test if measure.split == "test" else part.dev).get(measure.name)
        if isinstance(measure, Quantity):
            return self._costs.cell(measure, group.trials)
        if measure is Special.COSINE and self._answers:
            sentence = column.heading.removesuffix(" (gold)")
            cosine = self._answers.cosine(group, column.query, sentence)
            return None if cosine is None else Score(cosine, None, 1)
        return None


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


class Answers:
    """Asks the models whose weights a store keeps; each is loaded once."""

    def __init__(self, store: Store, status: Callable[[str], None]) -> None:
        """`store`: with the records and the weights. `status`: called with what is being done."""
        self._store, self._status = store, status
        self._models: dict[str, SentenceModel | None] = {}
        self.problems: dict[str, str] = {}
        """The key of a trial -> why its model cannot be asked"""

    def can_ask(self, group: Group) -> bool:
        """Whether there is a model of the group that can be asked."""
        return self._model(group) is not None

    def nearest(self, group: Group, query: str, count: int) -> list[str]:
        """The sentences of STS-B test nearest to a query; none where no model can be asked."""
        model = self._model(group)
        return [text for text, _ in model.nearest(query, count)] if model else []

    def cosine(self, group: Group, query: str, sentence: str) -> float | None:
        """The cosine of two sentences; None where no model can be asked."""
        model = self._model(group)
        return model.cosine(query, sentence) if model else None

    def _model(self, group: Group) -> "SentenceModel | None":
        """The model of the trial with the best dev score, of those with kept weights."""
        trial = chosen(group, [trial for trial in group.trials if self._kept(trial)])
        if trial is None:
            return None
        if trial.key not in self._models:
            self._models[trial.key] = self._loaded(trial.key)
        return self._models[trial.key]

    def _kept(self, trial: MeasuredTrial) -> bool:
        return not trial.trained or self._store.kept_weights(trial.key).is_file()

    def _loaded(self, key: str) -> "SentenceModel | None":
        from harness.trials.evaluate import SentenceModel
        from harness.trials.lookup import model

        try:
            trained = model(key, self._store, pooling=None, method=None)
            return SentenceModel(trained, self._store, lambda text, *_: self._status(text))
        except UserError as error:
            self.problems[key] = str(error)
            return None


def chosen(group: Group, trials: Sequence[MeasuredTrial]) -> MeasuredTrial | None:
    """The trial with the best dev score, the first of equal ones; None where there is none."""
    lowest = float("-inf")
    return max(trials, key=lambda trial: trial.dev.get(group.selects, lowest), default=None)
