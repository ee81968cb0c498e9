"""The columns of scores of a store: dev, the tests of its suites, and their averages."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from harness.evaluation.catalogue import DISPLAY, Metric, SuiteCard
from harness.report.cells import Cell
from harness.report.groups import Group, Score

DEV, DEV_BEFORE = "dev", "dev-before"
"""The score by which trials were selected, and that score before training"""


@dataclass(frozen=True)
class Column:
    """A column of scores of groups."""

    name: str
    """In options and in addresses; where two suites share a metric, `SUITE:METRIC`"""
    heading: str
    metric: str
    """Its name in the records, or DEV or DEV_BEFORE"""
    card: SuiteCard | None = None
    """The card of the suite that measures it; None: a dev score"""
    decimals: int = 2

    @property
    def is_average(self) -> bool:
        """Whether it is the mean over the tests of its suite."""
        return self.card is not None and self.metric == self.card.average

    @property
    def direction(self) -> int:
        """1 where higher is better, -1 where lower is, and 0 where the column is not ranked."""
        return self.card.directions.get(self.metric, 1) if self.card else 0

    def score(self, group: Group) -> Score | None:
        """The score of a group, as the suite measured it."""
        if self.card is not None:
            part = group if group.suite == self.card.name else group.measured(self.card.name)
            return part.test.get(self.metric) if part else None
        if self.metric == DEV_BEFORE:
            return group.dev_before
        return group.dev.get(group.selects if self.metric == DEV else self.metric)

    def cell(self, group: Group) -> Cell:
        """The cell of a group."""
        metric = Metric(self.card.name, self.metric) if self.card else None
        # Only a training has a score before training.
        expected = self.metric != DEV_BEFORE
        return Cell(self.score(group), self.decimals, metric, group, expected=expected)


def suite_columns(groups: Sequence[Group], shared: Collection[str]) -> list[Column]:
    """The columns of the tests of one suite, with their average last.

    groups: the parts that it measured. shared: the metrics that other suites have, too.
    """
    card, names = groups[0].card, list(tasks_of(groups))
    printed = card.average in card.headings or any(card.average in group.test for group in groups)
    if card.average and printed:
        names.append(card.average)
    return [
        Column(
            f"{card.name}:{name}" if name in shared else name,
            _heading(card, name),
            name,
            card,
            decimals_of(groups, name),
        )
        for name in names
    ]


def dev_columns(groups: Sequence[Group], *, own: bool) -> list[Column]:
    """The columns of the dev scores: of the metric that selected, and of the suite's own dev task.

    `own`: whether the suite is the one in the trials' own rows; then the first column is the score
    before training.
    """
    selects, dev = groups[0].selects, groups[0].card.dev
    column = Column(DEV, DEV, selects)
    if own:
        return [Column(DEV_BEFORE, "dev before", DEV_BEFORE), column]
    further = [Column(dev, DISPLAY.get(dev, dev), dev)] if dev and dev != selects else []
    return [
        each for each in (column, *further) if any(each.metric in group.dev for group in groups)
    ]


def tasks_of(groups: Sequence[Group]) -> tuple[str, ...]:
    """The tests of the suite that measured the groups, in the order of its card."""
    return groups[0].card.tasks(name for group in groups for name in group.tasks)


def decimals_of(groups: Sequence[Group], name: str) -> int:
    """Digits after the point of a test metric."""
    decimals = groups[0].card.decimals
    if decimals is not None:
        return decimals
    means = [group.test[name].mean for group in groups if name in group.test]
    return 4 if all(abs(mean) <= 1 for mean in means) else 2


def shared_metrics(groups: Sequence[Group]) -> set[str]:
    """The metrics that more than one suite has measured."""
    suites: dict[str, set[str]] = defaultdict(set)
    for part in (part for group in groups for part in group.parts):
        for metric in (*part.tasks, *part.test):
            suites[metric].add(str(part.suite))
    return {metric for metric, own in suites.items() if len(own) > 1}


def _heading(card: SuiteCard, metric: str) -> str:
    return card.headings.get(metric) or DISPLAY.get(metric, metric)
