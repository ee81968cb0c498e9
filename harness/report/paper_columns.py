"""The columns of a published table: the measure of each, and how its trials differ."""

from collections.abc import Mapping
from dataclasses import dataclass

from harness.report.published import ColumnRun, ReportedTable, Systems, TableRuns
from harness.report.quantities import Measure, measure_of


@dataclass(frozen=True)
class Column:
    """A column of a published table."""

    table: str
    """`<paper>.<table>`"""
    index: int
    heading: str
    run: ColumnRun
    measure: Measure
    decimals: int
    fraction: float
    """The share of the labels that its trials use"""
    unlike: Mapping[str, Mapping[str, str]]
    """The other systems of its table"""
    query: str
    systems: Systems


def columns_of(table: ReportedTable, systems: Systems, full_name: str) -> list[Column]:
    """The columns of the table `<paper>.<table>`."""
    columns, unlike = [], systems.table_runs.get(full_name, TableRuns()).unlike
    for index, name in enumerate(table.columns):
        run = systems.column(full_name, str(name))
        columns.append(
            Column(
                full_name,
                index,
                str(name),
                run,
                measure_of(table, index, run),
                table.printed_decimals(index),
                table.fractions[index] if table.fractions else 1,
                unlike,
                str(table.query),
                systems,
            )
        )
    return columns
