"""A published table with our scores: the trials that stand beside each value of the paper.

Also the answers of a store's models to queries: the sentences near one, and cosines.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from harness.data.revisions import without_revision
from harness.data.user_modules import names_of_records
from harness.errors import UserError, suggest
from harness.evaluation.catalogue import Metric
from harness.plugin import registry
from harness.plugin.resolution import CORPUS, resolve, unread_corpora, with_own_corpus
from harness.report.cells import Cell, Published
from harness.report.groups import Group, Score, comparable_groups
from harness.report.matching import ALL_LABELS, Wanted, best_on_dev, obstacle, wanted_for
from harness.report.paper import ColumnRun, Paper, Released, TableRuns, load_systems
from harness.report.published import QUOTED, THIS_PAPER, ReportedRow, ReportedTable
from harness.report.quantities import Column, Quantity, Special, columns_of, cost_of
from harness.report.tables import Row, n_text

if TYPE_CHECKING:
    from harness.trials.evaluate import SentenceModel
    from harness.trials.store import Store

OTHER_SYSTEM = "§"
"""The mark at a row whose published number is of another system than ours"""
RELEASED = "Released checkpoints, evaluated here"
"""The heading of the rows of released checkpoints"""


@dataclass(frozen=True)
class PaperTable:
    """A published table with our scores, before its rows are ranked."""

    paper: Paper
    number: str
    """The number of the table, such as `2`"""
    table: ReportedTable
    """The table as the paper prints it"""
    columns: Sequence[Column]
    sections: Sequence[tuple[str, Sequence[Row]]]
    """(heading, rows)"""
    notes: Sequence[str] = ()
    """Lines under it, from `systems.yaml`"""
    released: Sequence[Row] = ()
    """The released checkpoints of its systems, as the store has measured them.

    Each has a mark behind its label, such as `[3]`, which a line under the table explains."""

    @property
    def title(self) -> str:
        """The paper, the number of the table, and what it is about."""
        return f"{self.paper.title}. Table {self.number}: {self.table.about}"

    @cached_property
    def cells(self) -> list[Cell]:
        """The cells of all rows."""
        return [cell for _, rows in self.sections for row in rows for cell in row.cells]


class Answers:
    """Asks the models whose weights a store keeps; each is loaded once."""

    def __init__(self, store: "Store", status: Callable[[str], None]) -> None:
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
        kept = (
            trial
            for trial in group.trials
            if not trial.trained or self._store.kept_weights(trial.key).is_file()
        )
        trial = group.best_trial(kept)
        if trial is None:
            return None
        if trial.key not in self._models:
            self._models[trial.key] = self._loaded(trial.key)
        return self._models[trial.key]

    def _loaded(self, key: str) -> "SentenceModel | None":
        from harness.trials.evaluate import SentenceModel
        from harness.trials.lookup import model

        try:
            trained = model(key, self._store, pooling=None, method=None)
            return SentenceModel(trained, self._store, lambda text, *_: self._status(text))
        except UserError as error:
            self.problems[key] = str(error)
            return None


class Comparer:
    """Compares published tables with the trials of one store."""

    def __init__(
        self,
        trials: pa.Table,
        encoder: str | None = None,
        *,
        methods: Collection[str] = (),
        values: Mapping[str, Any] | None = None,
        answers: Answers | None = None,
        plugins: Mapping[str, str] = {},
    ) -> None:
        """Take the rows of a store.

        encoder: that of our trials, in the place of the papers'. methods: the names of those that
        can be run here, for what a row says of its gaps. values: hyperparameters that all
        our trials must have, where they have them at all. answers: those of the store's models to
        queries; None: they are not asked. plugins: those of a paper of one's own, which read
        `values`, too.
        """
        self._trials, self.encoder, self._answers = trials, encoder, answers
        self._methods = methods
        self._groups: Mapping[tuple[str, str, str], list[Group]] = defaultdict(list)
        for group in comparable_groups(trials):
            if _has(group, values or {}, plugins):
                # Who names no revision means any; who names one means this one.
                for name in {group.encoder, without_revision(group.encoder)}:
                    self._groups[group.method, group.setting, name].append(group)
        names = trials["encoder"].unique().to_pylist()
        stored = {*names, *map(without_revision, names)}
        self.notes = []
        if encoder and encoder not in stored:
            self.notes.append(f"No trial of the store is on {encoder}{suggest(encoder, stored)}")

    def find(self, wanted: Wanted) -> tuple[Group | None, int]:
        """The fitting group with the best mean dev score, and the number of its candidates."""
        alike = self._groups.get((wanted.method, wanted.setting, wanted.encoder), [])
        fitting = [group for group in alike if wanted.fits(group)]
        if not fitting:
            return None, 0
        best = best_on_dev(fitting)
        return best, sum(group.current == best.current for group in fitting)

    def table(self, paper: Paper, name: str) -> PaperTable:
        """The table `name` of a paper. Raises UserError for a row whose system is not listed."""
        table, systems, full_name = paper.tables[name], paper.runs, f"{paper.paper}.{name}"
        about = systems.table_runs.get(full_name, TableRuns())
        columns, number = columns_of(paper, name), name.removeprefix("table")
        sections, count, address = [], 0, f"{paper.paper}.{number}"
        for group in table.groups:
            rows = []
            for row in group.rows:
                count += 1
                cells, other = [], about.unlike.get(row.system, {}).get(row.setting or "", "")
                for column in columns:
                    wanted = None
                    # A method that needs labels has no number where there are none.
                    shown = column.fraction or row.value(column.index) is not None
                    if shown and column.measure is not Special.GIVEN:
                        own = column.run, column.fraction
                        wanted = wanted_for(systems, full_name, row, *own, self.encoder)
                    cells.append(self._cell(table, column, group.name, row, wanted, other))
                rows.append(self._row(cells, row, f"{address}.{count}", table))
            sections.append((group.name, rows))
        released = self._released(table, columns, systems.released, address)
        notes = [*self.notes, *about.notes, *filter(None, [systems.papers.get(paper.paper)])]
        return PaperTable(paper, number, table, columns, sections, notes, released)

    def _row(
        self, cells: Sequence[Cell], row: ReportedRow, address: str, table: ReportedTable
    ) -> Row:
        """The row, which says of each cell whether a command can fill it, and of none why not."""
        wanted = [cell.wanted for cell in cells if cell.wanted]
        runnable = [bool(one.wanted and not obstacle(one.wanted, self._methods)) for one in cells]
        without = "no method" if wanted else "quoted only"
        if row.system == QUOTED:
            without = ""  # the row itself says that it is only quoted
        if any(target.is_here(self._methods) for target in wanted):
            without = "" if any(runnable) else "needs input"
        source = row.origin or THIS_PAPER
        unlike = any(cell.published and cell.published.unlike for cell in cells)
        return Row(
            names=(f"{row.label} {table.citations[source]}{OTHER_SYSTEM if unlike else ''}",),
            n=n_text([n for cell in cells if (n := cell.n) is not None]),
            cells=tuple(
                replace(cell, expected=cell.asks and (cell.ours is not None or can_run))
                for cell, can_run in zip(cells, runnable, strict=True)
            ),
            address=address,
            complete=all(cell.ours for cell in cells if cell.metric and cell.asks),
            published_n=str(table.runs.get(row.system, "")) if source == THIS_PAPER else "",
            without=without,
        )

    def figure(self, full_name: str) -> list[tuple[Wanted, Group | None]]:
        """The trials for the points of the figure `<paper>.<figure>`, and those of the store."""
        systems = load_systems()
        figure = systems.figures[full_name]
        points = [{name: value} for name, values in figure.axis.items() for value in values] or [{}]
        wanted = [
            wanted_for(
                systems, full_name, row, ColumnRun(configuration=point), encoder=self.encoder
            )
            for row in figure.rows
            for point in points
        ]
        return [(target, self.find(target)[0]) for target in wanted if target]

    def _cell(
        self,
        table: ReportedTable,
        column: Column,
        heading: str,
        row: ReportedRow,
        wanted: Wanted | None,
        unlike: str = "",
    ) -> Cell:
        """The cell of a row with the trials that are wanted for it."""
        index, measure, own = column.index, column.measure, row.origin or THIS_PAPER
        source = row.origins[index] if row.origins else own
        group, candidates = self.find(wanted) if wanted else (None, 0)
        return Cell(
            ours=self._ours(table, column, group) if group else None,
            decimals=column.decimals,
            metric=measure if isinstance(measure, Metric) else None,
            group=group,
            candidates=candidates,
            published=Published(
                heading=heading,
                row=row,
                column=column.heading,
                value=row.value(index),
                printed=row.printed[index] if row.values else "",
                std=row.std[index] if row.std else None,
                source=source,
                measure=measure,
                unlike=unlike if wanted else "",
                wanted=wanted,
            ),
            citation="" if source == own else table.citations[source],
        )

    def _ours(self, table: ReportedTable, column: Column, group: Group) -> Score | None:
        """The score or the quantity of our trials that a column shows."""
        measure = column.measure
        if isinstance(measure, Metric):
            return group.score(measure)
        if isinstance(measure, Quantity):
            return cost_of(measure, group.trials, self._trials)
        if measure is Special.COSINE and self._answers:
            sentence = column.heading.removesuffix(" (gold)")
            cosine = self._answers.cosine(group, str(table.query), sentence)
            return None if cosine is None else Score(cosine, None, 1)
        return None

    def _released(
        self,
        table: ReportedTable,
        columns: Sequence[Column],
        checkpoints: Iterable[Released],
        address: str,
    ) -> list[Row]:
        """The rows of the released checkpoints of the systems in a table.

        A checkpoint has a row where the table has a row of its system, setting and encoder, and a
        score of one of its suites. address: that of the table, such as `diffcse.1`; the rows are
        numbered behind those of the paper, and their marks behind its marks.
        """
        suites, made = [], list[Row]()
        for column in columns:  # what shows other trials of a system does not show a checkpoint
            run = column.run
            other = run.run or run.setting or run.encoder or run.configuration
            suite = column.measure.suite if isinstance(column.measure, Metric) else ""
            suites.append("" if other or column.fraction != 1 else suite)
        for one in checkpoints if table.kind == "scores" else ():
            label = next((row.label for row in table.rows if one.is_of(row)), None)
            fits = [suite in one.suites for suite in suites]
            if label is None or not any(fits):
                continue
            mark = f"[{len(table.citations) + len(made) + 1}]"
            own = one.model_dump(include={"system", "setting", "encoder"})
            row = ReportedRow(label=label, origin=one.checkpoint, **own)
            wanted = Wanted(
                method="pooling" if one.pooling else "sentence_transformer",
                setting="unsup",
                encoder=one.checkpoint,
                configuration=(("pooling", one.pooling),) if one.pooling else (),
                defaults=tuple(ALL_LABELS.items()),
            )
            cells = tuple(
                self._cell(table, column, RELEASED, row, wanted if is_fit else None)
                for column, is_fit in zip(columns, fits, strict=True)
            )
            made.append(
                Row(
                    names=(f"{label} {mark}",),
                    n=n_text([n for cell in cells if cell.ours and (n := cell.n)]),
                    cells=cells,
                    address=f"{address}.{len(table.rows) + len(made) + 1}",
                    whose="theirs",
                )
            )
        return made


def _has(group: Group, values: Mapping[str, Any], plugins: Mapping[str, str]) -> bool:
    """Whether trials have these values, read as their method reads them.

    A value that changes nothing beside the others is that of its default, and does not count. Nor
    does a corpus that the method does not read; those that it reads need not be on this machine.
    """
    own, method = group.configuration, plugins.get(group.method, group.method)
    if values.keys().isdisjoint({*own, CORPUS}):
        return True
    try:
        with names_of_records():
            plugin = registry.load(method)
            named = with_own_corpus(plugin, values, own).items()
            typed = {name: value for name, value in named if name in own}
            declared = plugin.declare(resolve(plugin, {**own, **typed}))
            wanted, unread = declared.config.deciding(), unread_corpora(plugin, declared)
    except UserError:  # there is no such method here, or it does not take the values
        return False
    return all(own[name] == wanted.get(name) for name in typed.keys() - unread)
