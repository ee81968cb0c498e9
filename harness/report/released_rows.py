"""The rows of checkpoints that the authors of a system released, as this store measured them."""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.evaluation.catalogue import Metric
from harness.report.cells import Cell, Published
from harness.report.matching import Commands, Finder, Found, Wanted, wanted_for
from harness.report.paper_columns import Column
from harness.report.published import Released, ReportedRow, ReportedRun, ReportedTable, Systems
from harness.report.tables import Row, n_text

HEADING = "Released checkpoints, evaluated here"
"""The heading of these rows in a table"""


@dataclass(frozen=True)
class ReleasedRow:
    """A released checkpoint in a table."""

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
        return (
            f"{named}; to evaluate it: {commands.evaluation(self.wanted.model, ','.join(suites))}"
        )


def released_rows(
    table: ReportedTable, columns: Sequence[Column], systems: Systems, finder: Finder, address: str
) -> list[ReleasedRow]:
    """The rows of the released checkpoints of the systems in a table.

    A checkpoint has a row where the table has a row of its system, setting and encoder, and a score
    of one of its suites. finder: the groups of the store. address: that of the table, such as
    `diffcse.1`; the rows are numbered behind those of the paper, and their marks behind its marks.
    """
    if table.kind != "scores":
        return []
    marked = len({source for row in table.rows for source in table.sources(row)})
    made: list[ReleasedRow] = []
    for one in systems.released:
        beside = next((row for row in table.rows if one.is_of(row)), None)
        if beside is None or not any(_fits(column, one) for column in columns):
            continue
        mark, number = f"[{marked + len(made) + 1}]", len(table.rows) + len(made) + 1
        row = ReportedRow(
            label=beside.label,
            system=one.system,
            setting=one.setting,
            encoder=one.encoder,
            origin=one.checkpoint,
        )
        wanted = _wanted(one, row)
        found = finder.find(wanted)
        cells = [
            _cell(column, row, *((wanted, found) if _fits(column, one) else (None, None)))
            for column in columns
        ]
        shown = Row(
            names=(f"{row.label} {mark}",),
            n=n_text([cell.measured.n for cell in cells if cell.ours and cell.measured]),
            cells=tuple(cells),
            address=f"{address}.{number}",
            whose="theirs",
        )
        made.append(ReleasedRow(one, wanted, mark, shown))
    return made


def _wanted(one: Released, row: ReportedRow) -> Wanted:
    """The evaluation of a checkpoint, as `harness eval` stores it."""
    method = "pooling" if one.pooling else "sentence_transformer"
    pooled = {"pooling": one.pooling} if one.pooling else {}
    run = ReportedRun(method=method, configuration=pooled, encoder=one.checkpoint, setting="unsup")
    wanted = wanted_for(row, run)
    assert wanted is not None
    return wanted


def _fits(column: Column, one: Released) -> bool:
    """Whether a column is a score of the checkpoint, and not of other trials of its system."""
    run, measure = column.run, column.measure
    other = run.run or run.setting or run.encoder or run.configuration or column.fraction != 1
    return isinstance(measure, Metric) and measure.suite in one.suites and not other


def _cell(column: Column, row: ReportedRow, wanted: Wanted | None, found: Found | None) -> Cell:
    """The score of a checkpoint in a column; empty where it was not released for it."""
    metric, ours = column.measure if isinstance(column.measure, Metric) else None, None
    part = found.group.measured(metric.suite) if found and metric else None
    if part and metric:
        ours = (part.test if metric.split == "test" else part.dev).get(metric.name)
    published = Published(
        heading=HEADING,
        row=row,
        column=column.heading,
        value=None,
        printed="",
        std=None,
        source=str(row.origin),
        measure=column.measure,
        unlike="",
        wanted=wanted,
    )
    return Cell(
        ours=ours,
        decimals=column.decimals,
        metric=metric,
        group=found.group if found else None,
        candidates=found.candidates if found else 0,
        published=published,
    )
