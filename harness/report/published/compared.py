"""A published table with our numbers: what stands beside each value of the paper."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from harness.evaluation.catalogue import CARDS, STAND_INS, Metric
from harness.report.measured.groups import Cell, Group
from harness.report.measured.measured_trials import MeasuredTrial
from harness.report.measured.quantities import Quantity
from harness.report.published.matching import Found, Wanted
from harness.report.published.measures import Measure, Special
from harness.report.published.reported import Paper, ReportedRow, ReportedTable, Value

_TEXTS = (Special.GIVEN, Special.SENTENCE, Special.HYPERPARAMETER)
"""Columns whose values are printed as they are, and have no difference from ours"""


@dataclass(frozen=True)
class ComparedNumber:
    """One published value, and our trials for it."""

    group: str
    row: ReportedRow
    column: str
    value: Value
    """The published value"""
    printed: str
    """As the paper prints it; "" for one that it left out"""
    published_std: float | None
    origin: str
    measure: Measure
    decimals: int
    unlike: str
    """In what the published number is of another system than ours; "": it is of the same"""
    wanted: Wanted | None
    """The trials that would reproduce the value; None when it is only quoted"""
    found: Found | None
    """The trials of the store; None when it has none"""
    quantity: Cell | None = None
    """The quantity of these trials, where the column shows one"""

    @property
    def published(self) -> float | None:
        """The published value as a number that ours can stand beside; None: it is none."""
        if self.measure in _TEXTS or isinstance(self.value, str):
            return None
        return None if self.value is None else float(self.value)

    @property
    def metric(self) -> Metric | None:
        """The score that the column shows; None: it shows something else."""
        return self.measure if isinstance(self.measure, Metric) else None

    @property
    def measured(self) -> Group | None:
        """Our trials that the suite of the metric, or its stand-in, has measured; None: none."""
        if self.found is None or self.metric is None:
            return None
        own = self.found.group.measured(self.metric.suite)
        return own or self.found.group.measured(STAND_INS.get(self.metric.suite, ""))

    @property
    def stands_in(self) -> bool:
        """Whether our score is that of the stand-in."""
        measured, metric = self.measured, self.metric
        return bool(self.cell and measured and metric and measured.suite != metric.suite)

    @property
    def is_measured(self) -> bool:
        """Whether a trial is needed for the value."""
        return self.measure not in (Special.GIVEN, Special.HYPERPARAMETER)

    @property
    def foreign(self) -> bool:
        """Whether our trials follow another protocol, so that a difference says nothing."""
        return self.found is not None and not self.found.group.current

    @property
    def why_not(self) -> str:
        """Why ours is not subtracted from the published number; "": it is."""
        if self.unlike:
            return self.unlike
        if self.foreign and self.found:
            return f"ours was measured by protocol {self.found.group.provenance['protocol']}"
        if self.wanted and self.wanted.published_encoder:
            return (
                f"ours is on {self.wanted.encoder} in the place of {self.wanted.published_encoder}"
            )
        if self.stands_in and self.metric:
            return f"ours is of the suite {STAND_INS[self.metric.suite]}, which measures otherwise"
        if isinstance(self.measure, Quantity) and not self.measure.compared:
            return "the two are counted differently"
        return ""

    @property
    def n(self) -> str | None:
        """The number of our trials as text; None where the column needs none."""
        if self.measure in _TEXTS:
            return None
        if self.metric is None:
            return "1" if self.measure is Special.COSINE and self.quantity else self._group_n
        return self.measured.n if self.measured else "0"

    @property
    def _group_n(self) -> str:
        return self.found.group.n if self.found and self.quantity else "0"

    @cached_property
    def cell(self) -> Cell | None:
        """Our score or quantity; None when it has not been measured."""
        measured, metric = self.measured, self.metric
        if measured is None or metric is None:
            return self.quantity
        if metric.split == "test":
            return measured.test.get(metric.name)
        # The dev score of a stand-in has a name of its own.
        name = metric.name if measured.suite == metric.suite else CARDS[str(measured.suite)].dev
        return measured.dev.get(str(name))

    @property
    def unmeasured(self) -> list[MeasuredTrial]:
        """Our trials that do not have a score of the metric yet."""
        if self.found is None or self.metric is None:
            return []
        return [trial for trial in self.found.group.trials if not trial.has(self.metric)]

    @property
    def delta(self) -> float | None:
        """Our score minus the published one, where both are there and can be compared."""
        if self.cell is None or self.published is None or self.why_not:
            return None
        return self.cell.mean - self.published


@dataclass(frozen=True)
class ComparedTable:
    """A published table with our numbers."""

    paper: Paper
    name: str
    """Its name in the paper's file, such as `table2`"""
    sections: list[tuple[str, list[list[ComparedNumber]]]]
    """For each heading, for each row, one number per column"""

    @property
    def table(self) -> ReportedTable:
        """The table as the paper prints it."""
        return self.paper.tables[self.name]

    @property
    def number(self) -> str:
        """Its number in the paper."""
        return self.name.removeprefix("table")

    @property
    def title(self) -> str:
        """The paper, the number of the table, and what it is about."""
        return f"{self.paper.title}. Table {self.number}: {self.table.about}"

    @property
    def rows(self) -> Iterator[list[ComparedNumber]]:
        """The rows of all headings."""
        return (row for _, rows in self.sections for row in rows)

    @property
    def numbers(self) -> Iterator[ComparedNumber]:
        """The numbers of all rows."""
        return (each for row in self.rows for each in row)
