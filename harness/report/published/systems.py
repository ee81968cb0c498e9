"""Reads results/reported/systems.yaml: which trials fill the cells of published tables."""

import functools
from pathlib import Path
from typing import Any

from pydantic import Field

from harness.report.published.reported import (
    SYSTEMS_FILE,
    ReportedPart,
    ReportedRow,
    folder,
    load_yaml,
)

Hyperparameters = dict[str, Any]
"""Hyperparameters by name; a value that differs between encoders is a mapping from the encoder"""


class ReportedRun(ReportedPart):
    """The trials that reproduce a number: their method, and the hyperparameters they must have."""

    method: str
    configuration: Hyperparameters = Field(default={})
    defaults: Hyperparameters = Field(default={})
    """Defaults of the method that only a variant changes; the trials need not set them"""
    variants: dict[str, Hyperparameters] = Field(default={})
    needs: dict[str, str] = Field(default={})
    """Variant ("" for none) -> what its user must bring, so that nothing here can run it alone"""
    encoder: str | None = None
    """The only encoder of the run, which stays where another one stands in for the paper's"""
    setting: str | None = None


class ColumnRun(ReportedPart):
    """What a column shows where its heading does not say it, and what differs in its trials."""

    metric: str | None = None
    """A metric of a suite or a quantity of a trial, by name; None: what the heading names"""
    run: ReportedRun | None = None
    """A run in the place of that of the row"""
    setting: str | None = None
    encoder: str | None = None
    configuration: Hyperparameters = Field(default={})
    systems: dict[str, Hyperparameters] = Field(default={})
    """System -> what its rows must have besides"""


_NOTHING_SAID = ColumnRun()


class TableRuns(ReportedPart):
    """What is said of a table that its rows do not say; a column goes before the table."""

    metric: str | None = None
    systems: dict[str, Hyperparameters] = Field(default={})
    columns: dict[str, ColumnRun] = Field(default={})
    notes: list[str] = Field(default=[])
    """What stands under the table"""
    unlike: dict[str, dict[str, str]] = Field(default={})
    """System -> setting -> in what the paper's number is of another system than ours"""


class FigureRuns(ReportedPart):
    """The curves of a figure."""

    about: str
    rows: list[ReportedRow]
    axis: dict[str, list[int | float]] = Field(default={})
    """The hyperparameter along a curve -> its values; empty: each row is one model"""


class Systems(ReportedPart):
    """What harness runs for each `system` of a row; None: the numbers are only quoted."""

    systems: dict[str, ReportedRun | None]
    table_runs: dict[str, TableRuns] = Field(default={}, alias="tables")
    """`<paper>.<table>` -> what is said of it"""
    figures: dict[str, FigureRuns] = Field(default={})
    """`<paper>.<figure>` -> its curves"""
    papers: dict[str, str] = Field(default={})
    """Paper -> what stands under all of its tables"""

    def notes(self, paper: str, table: str) -> list[str]:
        """What stands under the table `table` of a paper."""
        own = self.table_runs.get(f"{paper}.{table}", TableRuns()).notes
        return [*own, *([self.papers[paper]] if paper in self.papers else [])]

    def unlike(self, table: str, row: ReportedRow) -> str:
        """In what a row of the table `<paper>.<table>` is of another system than ours; "": none."""
        runs = self.table_runs.get(table, TableRuns())
        return runs.unlike.get(row.system, {}).get(row.setting or "", "")

    def column(self, table: str, column: str) -> ColumnRun:
        """What is said of a column of the table `<paper>.<table>`, with what the table says."""
        runs = self.table_runs.get(table)
        if runs is None:  # as of most cells; a store is compared with thousands of them
            return _NOTHING_SAID
        found = runs.columns.get(column, _NOTHING_SAID)
        systems = {
            name: {**runs.systems.get(name, {}), **found.systems.get(name, {})}
            for name in {*runs.systems, *found.systems}
        }
        return found.model_copy(update={"metric": found.metric or runs.metric, "systems": systems})


def load_systems() -> Systems:
    """What harness runs for the systems of the papers."""
    return _systems(folder() / f"{SYSTEMS_FILE}.yaml")


@functools.cache
def _systems(path: Path) -> Systems:
    return load_yaml(path, Systems)
