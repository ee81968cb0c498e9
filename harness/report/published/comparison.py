"""Finds our trials for each value of a published table."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from harness.data.user_modules import names_of_records
from harness.errors import UserError
from harness.plugin import registry
from harness.plugin.resolution import resolve
from harness.report.measured.groups import Cell, Group, comparable_groups
from harness.report.measured.quantities import Costs, Quantity
from harness.report.published.answers import Answers
from harness.report.published.compared import ComparedNumber, ComparedTable
from harness.report.published.matching import Finder, Found, Wanted, run_of, wanted_for
from harness.report.published.measures import Measure, Special, measure_of
from harness.report.published.reported import Paper, ReportedRow
from harness.report.published.systems import ColumnRun, load_systems


class Comparer:
    """Compares published tables with the trials of one store."""

    def __init__(
        self,
        trials: pa.Table,
        encoder: str | None = None,
        *,
        values: Mapping[str, Any] | None = None,
        answers: Answers | None = None,
    ) -> None:
        """Take the rows of a store.

        encoder: that of our trials, in the place of the papers'. values: hyperparameters that all
        our trials must have, where they have them at all. answers: what the store's models answer
        to queries; None: they are not asked.
        """
        groups = [group for group in comparable_groups(trials) if _has(group, values or {})]
        self._finder, self._costs = Finder(groups), Costs(trials)
        self.encoder, self._systems, self._answers = encoder, load_systems(), answers

    def table(self, paper: Paper, name: str) -> ComparedTable:
        """The table `name` of a paper. Raises UserError for a row that `systems` does not know."""
        table = paper.tables[name]
        return ComparedTable(
            paper,
            name,
            [
                (
                    group.name,
                    [
                        [
                            self._number(paper, name, group.name, row, index)
                            for index in range(len(row.values))
                        ]
                        for row in group.rows
                    ],
                )
                for group in table.groups
            ],
        )

    def figure(self, place: str) -> list[tuple[Wanted, Found | None]]:
        """What is run for the points of the figure `<paper>.<figure>`, and what the store has."""
        figure = self._systems.figures[place]
        points = [{name: value} for name, values in figure.axis.items() for value in values] or [{}]
        wanted = [
            wanted_for(
                row,
                run_of(self._systems, place, row, ColumnRun()),
                ColumnRun(configuration=point),
                encoder=self.encoder,
            )
            for row in figure.rows
            for point in points
        ]
        return [(each, self._finder.find(each)) for each in wanted if each]

    def _number(
        self, paper: Paper, name: str, heading: str, row: ReportedRow, index: int
    ) -> ComparedNumber:
        table = paper.tables[name]
        column = str(table.columns[index])
        said = self._systems.column(f"{paper.paper}.{name}", column)
        measure = measure_of(table, index, said)
        target = None if measure is Special.GIVEN else self._target(paper, name, row, index)
        found = self._finder.find(target) if target else None
        return ComparedNumber(
            group=heading,
            row=row,
            column=column,
            value=row.values[index],
            printed=row.printed[index],
            published_std=row.std[index] if row.std else None,
            origin=str(row.origins[index] if row.origins else row.origin or "this paper"),
            measure=measure,
            decimals=table.printed_decimals(index),
            unlike=self._systems.unlike(f"{paper.paper}.{name}", row) if target else "",
            wanted=target,
            found=found,
            quantity=self._quantity(measure, found, str(table.query), column),
        )

    def _quantity(
        self, measure: Measure, found: Found | None, query: str, sentence: str
    ) -> Cell | None:
        """The quantity of our trials that a column shows, if it shows one."""
        if found is None:
            return None
        if isinstance(measure, Quantity):
            return self._costs.cell(measure, found.group.trials)
        if measure is Special.COSINE and self._answers:
            cosine = self._answers.cosine(found.group, query, sentence.removesuffix(" (gold)"))
            return None if cosine is None else Cell(cosine, None, 1)
        return None

    def _target(self, paper: Paper, name: str, row: ReportedRow, index: int) -> Wanted | None:
        """What to run for a value; None where a method that needs labels has none."""
        table, place = paper.tables[name], f"{paper.paper}.{name}"
        fraction = table.fractions[index] if table.fractions else 1
        if not fraction and row.values[index] is None:
            return None
        said = self._systems.column(place, str(table.columns[index]))
        run = run_of(self._systems, place, row, said)
        return wanted_for(row, run, said, fraction, self.encoder)


def _has(group: Group, values: Mapping[str, Any]) -> bool:
    """Whether trials have these values, read as their method reads them.

    A value that changes nothing beside the others is that of its default, and does not count.
    """
    own = group.configuration
    given = {name: value for name, value in values.items() if name in own}
    if not given:
        return True
    try:
        with names_of_records():
            wanted = resolve(registry.load(group.method), {**own, **given}).deciding()
    except UserError:  # there is no such method here, or it does not take the values
        return False
    return all(own[name] == wanted.get(name) for name in given)
