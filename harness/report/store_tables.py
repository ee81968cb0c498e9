"""The tables of what a store holds: one for each suite."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path

from harness.evaluation.catalogue import DISPLAY, Metric, SuiteCard, rank
from harness.report import notes
from harness.report.cells import Cell, decimals_of, percent_text
from harness.report.groups import NO_SEED, Group, comparable_groups
from harness.report.measured_trials import Identity, rows_of
from harness.report.records import STORE_SCHEMA, best_of, store_records
from harness.report.row_names import Searched, names_of, searched_by
from harness.report.tables import Row, Section, Table, over_subsets, ranked
from harness.trials.record_files import Reading
from harness.trials.store_folders import store_option

GroupNumbers = Mapping[Identity, int]
"""The number of each group among those of the store, by which `harness show` finds it"""
MeasuredBy = Mapping[str, Set[tuple[str, str]]]
"""Metric -> the suites that have measured it, each with the digest of its data"""
DEV, DEV_BEFORE = "dev", "dev-before"
"""The score by which trials were selected, and that score before training"""


def store_tables(reading: Reading, store: Path | str, keys: Set[str] | None = None) -> list[Table]:
    """The tables of a store: one for each suite, its data, and each metric that selected.

    The notes stand under the last one. `store`: its place, which a note may name. `keys`: rows
    without one of these trials are left out; None: no row is.
    """
    groups = comparable_groups(reading.table)
    shown = [group for group in groups if keys is None or not keys.isdisjoint(group.keys)]
    below = [
        *notes.foreign(shown),
        *notes.shortcomings(rows_of(reading.table, keys)),
        *([notes.unreadable(reading)] if reading.unreadable else []),
    ]
    if not shown:
        first = notes.nothing_yet(reading.table, store)
        return [Table(notes=[first, *below], make_records=STORE_SCHEMA.empty_table)]
    parts: dict[tuple[str, str, str], list[Group]] = defaultdict(list)
    for part in (part for group in shown for part in group.parts):
        parts[part.selects, str(part.suite), part.card.data].append(part)
    searched, numbers = searched_by(reading.table), group_numbers(groups)
    measured_by = suites_of(groups)
    order = sorted(parts, key=lambda key: (key[0], rank(key[1]), tasks_of(parts[key]), key[2]))
    tables = [_suite_table(parts[key], searched, numbers, measured_by, store) for key in order]
    # What other data gave is not to be ranked, whatever its name is.
    names = [name for name, _ in {(suite, data) for _, suite, data in order}]
    for at, (_, suite, data) in enumerate(order):
        if names.count(suite) > 1:
            title = f"suite {suite}, data {data[:8] or 'not recorded'}"
            tables[at] = replace(tables[at], title=title)
    return [*tables[:-1], replace(tables[-1], notes=[*tables[-1].notes, *below])]


def group_numbers(groups: Iterable[Group]) -> GroupNumbers:
    """The numbers of all groups of a store, from 1 on."""
    return {group.identity: number for number, group in enumerate(groups, 1)}


def _suite_table(
    groups: list[Group],
    searched: Searched,
    numbers: GroupNumbers,
    measured_by: MeasuredBy,
    store: Path | str,
) -> Table:
    """The table of one suite. groups: the parts that it measured."""
    card, selects = groups[0].card, groups[0].selects
    own = any(group.own for group in groups)
    dev = dev_columns(groups, measured_by, own=own)
    columns = [*dev, *suite_columns(groups, measured_by)]
    names = names_of(groups, searched)
    rows = [
        Row(
            row_names,
            group.n,
            tuple(column.cell(group) for column in columns),
            address=str(numbers[group.identity]),
            complete={*group.tasks, *filter(None, [card.average])} <= group.test.keys(),
            # A method without a choice of labels stands beside those that use all of them.
            block=(group.setting, group.encoder, percent_text(group.label_fraction or 1)),
        )
        for row_names, group in zip(zip(*names.values(), strict=True), groups, strict=True)
    ]
    shown = ranked(rows, [column.direction for column in columns], store)
    selected = any(column.heading == DEV for column in dev)
    by = f"; selected on dev ({DISPLAY.get(selects, selects)}), test never selects"
    units = f"{card.units}, mean±sample std over n seeds{by if selected else ''}. {card.protocol}"
    alone = f"{NO_SEED}: nothing is trained, so there is no seed."
    caption = [
        units.strip(),
        alone if any(group.n == NO_SEED for group in groups) else "",
        over_subsets(row.n for row in rows) if any(group.subsets > 1 for group in groups) else "",
        notes.made_on(trial for group in groups for trial in group.trials),
    ]
    return Table(
        title="" if own else f"suite {groups[0].suite}",
        columns=[*names, "n", *(column.heading for column in columns)],
        text_columns=len(names),
        sections=[Section("", shown)],
        caption=" ".join(filter(None, caption)),
        notes=notes.leaks(rows),
        make_records=lambda: store_records(groups, best_of(shown)),
        metrics=[column.name for column in columns],
        # The columns that stand first where a terminal is narrow.
        averages=[
            *(each.name for each in columns if each.card and each.metric == card.average),
            *(each.name for each in dev if each.heading == DEV),
        ],
        show_options=store_option(store),
    )


@dataclass(frozen=True)
class Column:
    """A column of scores of groups."""

    name: str
    """In addresses; where two suites share a metric, `SUITE:METRIC` or `SUITE@DATA:METRIC`"""
    heading: str
    metric: str
    """Its name in the records, or DEV_BEFORE"""
    card: SuiteCard | None = None
    """The card of the suite that measures it; None: a dev score"""
    decimals: int = 2

    @property
    def direction(self) -> int:
        """1 where higher is better, -1 where lower is, and 0 where the column is not ranked."""
        return self.card.directions.get(self.metric, 1) if self.card else 0

    def cell(self, group: Group) -> Cell:
        """The cell of a group, as its suite measured it."""
        if self.card:
            metric = Metric(self.card.name, self.metric, data=self.card.data)
            score = group.test.get(self.metric)
            return Cell(score, self.decimals, metric, group, expected=True)
        before = self.metric == DEV_BEFORE
        after = group.selected if self.heading == DEV else group.dev.get(self.metric)
        score = group.dev_before if before else after
        # Only a training has a score before training.
        return Cell(score, self.decimals, None, group, expected=not before)


def suite_columns(groups: Sequence[Group], measured_by: MeasuredBy) -> list[Column]:
    """The columns of the tests of one suite, with their average last.

    groups: the parts that it measured.
    """
    card, names = groups[0].card, list(tasks_of(groups))
    printed = card.average in card.headings or any(card.average in group.test for group in groups)
    if card.average and printed:
        names.append(card.average)
    return [
        Column(
            _column_name(card, name, measured_by.get(name, ())),
            card.headings.get(name) or DISPLAY.get(name, name),
            name,
            card,
            decimals_of(card, (group.test[name].mean for group in groups if name in group.test)),
        )
        for name in names
    ]


def dev_columns(groups: Sequence[Group], measured_by: MeasuredBy, *, own: bool) -> list[Column]:
    """The columns of the dev scores: of the metric that selected, and of the suite's own dev task.

    They are over the trials that the suite has measured. `own`: whether the suite is the one in the
    trials' own rows; then the first column is the score before training.
    """
    selects, card = groups[0].selects, groups[0].card
    decimals = _dev_decimals(groups, selects)
    if own:
        before = Column(DEV_BEFORE, "dev before", DEV_BEFORE, decimals=decimals)
        return [before, Column(DEV, DEV, selects, decimals=decimals)]
    name = _column_name(card, DEV, measured_by[DEV])
    columns = [Column(name, DEV, selects, decimals=decimals)]
    # Another suite of this name, with other data, may have selected.
    others = card.data and any(trial.own for group in groups for trial in group.trials)
    if (dev := card.dev) and (dev != selects or others):
        name, heading = _column_name(card, dev, measured_by[dev]), DISPLAY.get(dev, dev)
        columns.append(Column(name, heading, dev, decimals=_dev_decimals(groups, dev)))
    return [each for each in columns if any(each.metric in group.dev for group in groups)]


def _dev_decimals(groups: Sequence[Group], metric: str) -> int:
    """Digits after the point of a dev score: as many as those of the suite that measures it."""
    parts = (part for group in groups for part in group.parts if metric in part.card.dev_tasks)
    if (part := next(parts, None)) is None:
        return 2
    return decimals_of(
        part.card, (group.dev[metric].mean for group in groups if metric in group.dev)
    )


def tasks_of(groups: Sequence[Group]) -> tuple[str, ...]:
    """The tests of the suite that measured the groups, in the order of its card."""
    return groups[0].card.tasks(name for group in groups for name in group.tasks)


def suites_of(groups: Sequence[Group]) -> MeasuredBy:
    """The suites that have measured each metric of the groups."""
    suites: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for part in (part for group in groups for part in group.parts):
        for metric in (DEV, *part.card.dev_tasks, *part.tasks, *part.test):
            suites[metric].add((str(part.suite), part.card.data))
    return suites


def _column_name(card: SuiteCard, metric: str, suites: Collection[tuple[str, str]]) -> str:
    """The metric; its suite, too, where several have it, and the data where these are several."""
    if len(suites) <= 1:
        return metric
    several = [suite for suite, _ in suites].count(card.name) > 1
    return f"{card.name}{f'@{card.data[:8]}' if several and card.data else ''}:{metric}"
