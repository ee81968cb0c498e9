"""The columns of scores of a suite's table: dev, the tests, and their average."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.evaluation.catalogue import DISPLAY, Metric
from harness.report.measured.groups import Cell, Group
from harness.report.sheets.leaks import leaks_of
from harness.report.sheets.ranking import ranked
from harness.report.sheets.rows import FOREIGN, ScoreRow, SheetCell


@dataclass(frozen=True)
class ScoreColumn:
    """A column of scores: its heading, its name in an address, and the cell of each group."""

    heading: str
    name: str
    cell: Callable[[Group], Cell | None]
    decimals: int = 2
    metric: Metric | None = None
    """The place of a test score in the store"""
    direction: int = 0
    """1 where higher is better, -1 where lower is, and 0 where the column is not ranked"""

    def sheet_cell(self, group: Group) -> SheetCell:
        """The cell of a group, with its mark."""
        mark = "" if group.current else FOREIGN
        score = self.cell(group)
        return SheetCell(
            score,
            self.decimals,
            mark=mark,
            leaks=leaks_of(score, self.metric),
            comparable=group.current,
            expected=self.name != "dev-before",  # only a training has it
        )


def tasks_of(groups: list[Group]) -> tuple[str, ...]:
    return groups[0].card.tasks(name for group in groups for name in group.tasks)


def test_columns(groups: list[Group]) -> list[ScoreColumn]:
    """The columns of the suite's metrics, with their average last."""
    card, names = groups[0].card, list(tasks_of(groups))
    printed = card.average in card.headings or any(card.average in group.test for group in groups)
    if card.average and printed:
        names.append(card.average)

    def column(name: str) -> ScoreColumn:
        heading = card.headings.get(name) or DISPLAY.get(name, name)
        return ScoreColumn(
            heading,
            name,
            lambda group: group.test.get(name),
            decimals_of(groups, name),
            Metric(card.name, name),
            card.directions.get(name, 1),
        )

    return [column(name) for name in names]


def dev_columns(groups: list[Group], *, own: bool) -> list[ScoreColumn]:
    """The columns of the dev scores: of the metric that selected, and of the suite's own dev task.

    `own`: whether the suite is the one in the trials' own rows; then the first column is the score
    before training.
    """

    def column(heading: str, name: str) -> ScoreColumn:
        address = "dev" if name == selects else name
        return ScoreColumn(heading, address, lambda group: group.dev.get(name))

    selects, dev = groups[0].selects, groups[0].card.dev
    if own:
        before = ScoreColumn("dev before", "dev-before", lambda group: group.dev_before)
        return [before, column("dev", selects)]
    named = {selects: "dev"}
    if dev and dev != selects:
        named[dev] = DISPLAY.get(dev, dev)
    return [
        column(heading, name)
        for name, heading in named.items()
        if any(name in group.dev for group in groups)
    ]


def decimals_of(groups: list[Group], name: str) -> int:
    """Digits after the point of a test metric."""
    known = groups[0].card.decimals
    if known is not None:
        return known
    means = [group.test[name].mean for group in groups if name in group.test]
    return 4 if all(abs(mean) <= 1 for mean in means) else 2


def rank_rows(
    rows: Sequence[ScoreRow],
    columns: Sequence[ScoreColumn],
    averages: Sequence[str],
    store: Path | str,
) -> list[ScoreRow]:
    """The rows with their best cells marked, and in groups by the average, or the only metric."""
    ranking = [index for index, column in enumerate(columns) if column.direction]
    named = [index for index in ranking if columns[index].name in averages]
    average = next(iter(named or (ranking if len(ranking) == 1 else [])), None)
    ways = [column.direction for column in columns]
    return ranked(rows, ways, average, [column.metric for column in columns], store)
