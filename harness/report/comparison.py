"""Compares each number of a published table with ours."""

from dataclasses import dataclass

from harness.evaluation.catalogue import STAND_INS, Metric
from harness.report.groups import Cell, Group
from harness.report.matching import Finder, Found, Wanted, run_of, wanted_for
from harness.report.measured_trials import MeasuredTrial
from harness.report.reported import ReportedRow, ReportedTable, Systems


@dataclass(frozen=True)
class ComparedNumber:
    """One published number, and our trials for it."""

    group: str
    row: ReportedRow
    column: str
    published: float | None
    published_std: float | None
    origin: str
    metric: Metric
    decimals: int
    wanted: Wanted | None
    """The trials that would reproduce the number; None when it is only quoted"""
    found: Found | None
    """The trials of the store; None when it has none"""

    @property
    def measured(self) -> Group | None:
        """Our trials that the suite of the metric, or its stand-in, has measured; None: none."""
        if self.found is None:
            return None
        own = self.found.group.measured(self.metric.suite)
        return own or self.found.group.measured(STAND_INS.get(self.metric.suite, ""))

    @property
    def stands_in(self) -> bool:
        """Whether our score is that of the stand-in."""
        measured = self.measured
        return bool(self.cell and measured and measured.suite != self.metric.suite)

    @property
    def cell(self) -> Cell | None:
        """Our score; None when it has not been measured."""
        if self.measured is None:
            return None
        scores = self.measured.dev if self.metric.split == "dev" else self.measured.test
        return scores.get(self.metric.name)

    @property
    def unmeasured(self) -> list[MeasuredTrial]:
        """Our trials that do not have a score of the metric yet."""
        if self.found is None:
            return []
        return [trial for trial in self.found.group.trials if not trial.has(self.metric)]

    @property
    def delta(self) -> float | None:
        """Our score minus the published one, where both are there."""
        if self.cell is None or self.published is None:
            return None
        return self.cell.mean - self.published


def compare_table(
    table: ReportedTable, name: str, systems: Systems, finder: Finder
) -> list[tuple[str, list[list[ComparedNumber]]]]:
    """The compared numbers: for each heading, for each row, one number per column.

    `name`: `<paper>.<table>`. Raises UserError for a row that `systems` does not know.
    """
    return [
        (
            group.name,
            [
                [
                    _comparison(table, name, group.name, row, index, systems, finder)
                    for index in range(len(row.values))
                ]
                for row in group.rows
            ],
        )
        for group in table.groups
    ]


def _comparison(
    table: ReportedTable,
    name: str,
    heading: str,
    row: ReportedRow,
    index: int,
    systems: Systems,
    finder: Finder,
) -> ComparedNumber:
    column, value = str(table.columns[index]), row.values[index]
    target, runs = _target(table, name, row, index, systems), systems.column_runs.get(name)
    return ComparedNumber(
        group=heading,
        row=row,
        column=column,
        published=float(value) if value is not None else None,
        published_std=row.std[index] if row.std else None,
        origin=str(row.origins[index] if row.origins else row.origin),
        metric=Metric("sts", runs.metric, "dev") if runs else table.metrics[index],
        decimals=table.decimals(index),
        wanted=target,
        found=finder.find(target) if target else None,
    )


def _target(
    table: ReportedTable, name: str, row: ReportedRow, index: int, systems: Systems
) -> Wanted | None:
    """What to run for a number; None where a method that needs labels has none."""
    fraction = table.fractions[index] if table.fractions else 1
    if not fraction and row.values[index] is None:
        return None
    return wanted_for(row, run_of(systems, name, row, str(table.columns[index])), fraction)
