"""The tables of what a store holds: one for each suite."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from dataclasses import replace
from pathlib import Path

from harness.evaluation.catalogue import DISPLAY, rank
from harness.report.cells import percent_text
from harness.report.groups import NO_SEED, Group, comparable_groups
from harness.report.measured_trials import Identity, rows_of
from harness.report.notes import (
    foreign,
    leak_notes,
    made_on,
    nothing_yet,
    shortcomings,
    unreadable,
)
from harness.report.ranking import ranked
from harness.report.records import STORE_SCHEMA, best_of, store_records
from harness.report.row_names import Searched, names_of, searched_by
from harness.report.score_columns import (
    DEV,
    dev_columns,
    shared_metrics,
    suite_columns,
    tasks_of,
)
from harness.report.tables import OVER_SUBSETS, Row, Section, Table
from harness.trials.record_files import Reading
from harness.trials.store_folders import store_option

GroupNumbers = Mapping[Identity, int]
"""The number of each group among those of the store, by which `harness show` finds it"""


def store_tables(reading: Reading, store: Path | str, keys: Set[str] | None = None) -> list[Table]:
    """The tables of a store: one for each suite and each metric that selected.

    The notes stand under the last one. `store`: its place, which a note may name. `keys`: rows
    without one of these trials are left out; None: no row is.
    """
    groups = comparable_groups(reading.table)
    shown = [group for group in groups if keys is None or not keys.isdisjoint(group.keys)]
    notes = [*foreign(shown), *shortcomings(rows_of(reading.table, keys)), *unreadable(reading)]
    if not shown:
        first = nothing_yet(reading.table, store)
        return [Table(notes=[first, *notes], make_records=STORE_SCHEMA.empty_table)]
    parts: dict[tuple[str, str], list[Group]] = defaultdict(list)
    for part in (part for group in shown for part in group.parts):
        parts[part.selects, str(part.suite)].append(part)
    searched, numbers = searched_by(reading.table), group_numbers(groups)
    shared = shared_metrics(groups)
    order = sorted(parts, key=lambda key: (key[0], rank(key[1]), tasks_of(parts[key])))
    tables = [_suite_table(parts[key], searched, numbers, shared, store) for key in order]
    return [*tables[:-1], replace(tables[-1], notes=[*tables[-1].notes, *notes])]


def group_numbers(groups: Iterable[Group]) -> GroupNumbers:
    """The numbers of all groups of a store, from 1 on."""
    return {group.identity: number for number, group in enumerate(groups, 1)}


def _suite_table(
    groups: list[Group],
    searched: Searched,
    numbers: GroupNumbers,
    shared: Set[str],
    store: Path | str,
) -> Table:
    """The table of one suite. groups: the parts that it measured."""
    card, selects = groups[0].card, groups[0].selects
    own = any(group.own for group in groups)
    dev = dev_columns(groups, own=own)
    columns = [*dev, *suite_columns(groups, shared)]
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
        OVER_SUBSETS if any(group.subsets > 1 for group in groups) else "",
        made_on(trial for group in groups for trial in group.trials),
    ]
    return Table(
        title="" if own else f"suite {groups[0].suite}",
        columns=[*names, "n", *(column.heading for column in columns)],
        text_columns=len(names),
        sections=[Section("", shown)],
        caption=" ".join(filter(None, caption)),
        notes=leak_notes(rows),
        make_records=lambda: store_records(groups, best_of(shown)),
        metrics=[column.name for column in columns],
        # The columns that stand first where a terminal is narrow.
        averages=[*(column.name for column in columns if column.is_average), DEV],
        show_options=store_option(store),
    )
