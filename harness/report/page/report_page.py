"""What a report shows, before it is written."""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.report.figures.specification import Figure
from harness.report.page.gaps import Gap
from harness.report.page.grid import Grid
from harness.report.page.sheet_grids import sheet_grid
from harness.report.page.store_grids import (
    cost_grid,
    environment_grid,
    failures_grid,
    trials_grid,
)
from harness.report.page.stored_trials import StoredTrials
from harness.report.sheets.sheet import Sheet


@dataclass(frozen=True)
class ReportPage:
    """The content of a report."""

    title: str
    store: str
    """The place of the store, as a person may read it"""
    trials: StoredTrials
    sheets: Sequence[Sheet]
    figures: Sequence[Figure]
    missing: Sequence[Gap]
    notes: Sequence[str] = ()
    """Sentences about what could not be drawn"""

    @property
    def result_grids(self) -> list[Grid]:
        """The tables of scores."""
        return [
            sheet_grid(f"table-{place}", sheet, self.trials)
            for place, sheet in enumerate(self.sheets, 1)
        ]

    @property
    def store_grids(self) -> list[tuple[str, Grid]]:
        """(heading, table) of what the records say besides scores."""
        records = self.trials.records
        return [
            ("Cost", cost_grid(records)),
            ("Failures", failures_grid(records)),
            ("Environment", environment_grid(records)),
            ("All trials", trials_grid(records)),
        ]
