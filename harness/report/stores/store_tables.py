"""The table of what a store holds: for each suite, one row for each group of comparable trials."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from harness.evaluation.catalogue import DISPLAY, rank
from harness.report.measured.group_filter import filtered
from harness.report.measured.groups import NO_SEED, Group, comparable_groups
from harness.report.measured.measured_trials import Identity
from harness.report.sheets.leaks import leak_notes
from harness.report.sheets.notes import (
    foreign,
    made_on,
    nothing_such,
    nothing_yet,
    shortcomings,
    unreadable,
)
from harness.report.sheets.rows import ScoreRow
from harness.report.sheets.sheet import OVER_SUBSETS, Section, Sheet, best_of, percent_text
from harness.report.stores.named_metrics import shared_metrics
from harness.report.stores.row_names import Searched, names_of, searched_by
from harness.report.stores.score_columns import (
    ScoreColumn,
    dev_columns,
    rank_rows,
    tasks_of,
    test_columns,
)
from harness.report.stores.store_records import STORE_SCHEMA, records_of
from harness.trials.record_files import Reading
from harness.trials.store_folders import store_option

GroupNumbers = Mapping[Identity, int]
"""The number of each group among those of the store, by which `harness show` finds it"""


def store_sheets(
    reading: Reading,
    store: Path | str,
    where: str | None = None,
    keys: Set[str] | None = None,
) -> list[Sheet]:
    """The sheets of a store: one for each suite and each metric that selected.

    The notes stand under the last one. `store`: its place, which a note may name. `where`: an SQL
    expression; other rows are left out, and so are those without a trial of `keys`, where these
    are given. Raises UserError for an expression that cannot be used.
    """
    searched = searched_by(reading.table)
    parts: dict[tuple[str, str], list[Group]] = defaultdict(list)
    found = comparable_groups(reading.table)
    numbers = group_numbers(found)
    shown = [
        group for group in filtered(found, where) if keys is None or not keys.isdisjoint(group.keys)
    ]
    for group in shown:
        for part in group.parts:
            parts[part.selects, str(part.suite)].append(part)
    notes = [*foreign(shown), *shortcomings(rows_of(reading.table, keys)), *unreadable(reading)]
    if not parts:
        empty = nothing_such(where) if found else nothing_yet(reading.table, store)
        return [Sheet("", [], 0, [], "", [empty, *notes], STORE_SCHEMA.empty_table)]
    order = sorted(parts, key=lambda key: (key[0], rank(key[1]), tasks_of(parts[key])))
    shared = shared_metrics(found)
    sheets = [_sheet(parts[key], searched, numbers, shared, store) for key in order]
    return [*sheets[:-1], replace(sheets[-1], notes=[*sheets[-1].notes, *notes])]


def rows_of(table: pa.Table, keys: Set[str] | None) -> pa.Table:
    """The rows of these trials and of their evaluations; None: all."""
    if keys is None:
        return table
    wanted = pa.array(sorted(keys), pa.string())
    return table.filter(
        pc.or_(pc.is_in(table["key"], wanted), pc.is_in(table["evaluates"], wanted))
    )


def group_numbers(groups: Iterable[Group]) -> GroupNumbers:
    """The numbers of all groups of a store, from 1 on."""
    return {group.identity: number for number, group in enumerate(groups, 1)}


def _sheet(
    groups: list[Group],
    searched: Searched,
    numbers: GroupNumbers,
    shared: Set[str],
    store: Path | str,
) -> Sheet:
    own = any(group.own for group in groups)
    dev = dev_columns(groups, own=own)
    columns = [*dev, *(_addressed(each, groups[0], shared) for each in test_columns(groups))]
    names = names_of(groups, searched)
    rows = [
        _row(name, group, columns, numbers[group.identity])
        for name, group in zip(zip(*names.values(), strict=True), groups, strict=True)
    ]
    average = groups[0].card.average
    averages = [each.name for each in columns if each.metric and each.metric.name == average]
    ranked = rank_rows(rows, columns, averages, store)
    return Sheet(
        title="" if own else f"suite {groups[0].suite}",
        columns=[*names, "n", *(column.heading for column in columns)],
        text_columns=len(names),
        sections=[Section("", ranked)],
        caption=_caption(groups, selected=any(column.heading == "dev" for column in dev)),
        notes=leak_notes(rows),
        make_records=lambda: records_of(groups, best_of(ranked)),
        metrics=[column.name for column in columns],
        averages=[*averages, "dev"],
        show_options=store_option(store),
    )


def _addressed(column: ScoreColumn, part: Group, shared: Set[str]) -> ScoreColumn:
    """A column of tests under the name by which `harness show` finds its cells."""
    name = f"{part.suite}:{column.name}" if column.name in shared else column.name
    return replace(column, name=name)


def _row(
    names: tuple[str, ...], group: Group, columns: Sequence[ScoreColumn], number: int
) -> ScoreRow:
    tasks = {*group.tasks, *([group.card.average] if group.card.average else [])}
    return ScoreRow(
        names,
        group.n,
        tuple(column.sheet_cell(group) for column in columns),
        address=str(number),
        complete=tasks <= group.test.keys(),
        # A method without a choice of labels stands beside those that use all of them.
        block=(group.setting, group.encoder, percent_text(group.label_fraction or 1)),
    )


def _caption(groups: list[Group], *, selected: bool) -> str:
    card, selects = groups[0].card, groups[0].selects
    chosen = f"; selected on dev ({DISPLAY.get(selects, selects)}), test never selects."
    untrained = any(group.n == NO_SEED for group in groups)
    parts = [
        f"{card.units}, mean±sample std over n seeds" + (chosen if selected else "."),
        card.protocol,
        f"{NO_SEED}: nothing is trained, so there is no seed." if untrained else "",
        OVER_SUBSETS if any(group.subsets > 1 for group in groups) else "",
        made_on(trial for group in groups for trial in group.trials),
    ]
    return " ".join(part for part in parts if part)
