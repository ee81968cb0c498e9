"""The tables of what a store holds: one for each suite, or one's own rows and columns."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from harness.errors import UserError
from harness.evaluation.catalogue import DISPLAY, rank
from harness.inputs import names_in
from harness.report.cells import percent_text
from harness.report.groups import NO_SEED, Group, comparable_groups
from harness.report.matching import best_on_dev
from harness.report.measured_trials import IDENTITY_COLUMNS, Identity, rows_of
from harness.report.notes import (
    first_of,
    foreign,
    leak_notes,
    made_on,
    nothing_yet,
    shortcomings,
    unreadable,
)
from harness.report.ranking import ranked
from harness.report.records import STORE_SCHEMA, best_of, store_records
from harness.report.row_names import Searched, names_of, searched_by, short_names, text_of
from harness.report.score_columns import (
    DEV,
    DEV_BEFORE,
    Column,
    columns_of,
    dev_columns,
    meant,
    shared_metrics,
    suite_columns,
    tasks_of,
    with_decimals,
)
from harness.report.tables import OVER_SUBSETS, Row, Section, Table, n_text
from harness.trials.record_files import Reading
from harness.trials.store_folders import store_option

GroupNumbers = Mapping[Identity, int]
"""The number of each group among those of the store, by which `harness show` finds it"""
DEFAULT_ROWS = ("method", "setting", "encoder")
"""The rows of one's own table where a user names none"""


def store_tables(reading: Reading, store: Path | str, keys: Set[str] | None = None) -> list[Table]:
    """The tables of a store: one for each suite and each metric that selected.

    The notes stand under the last one. `store`: its place, which a note may name. `keys`: rows
    without one of these trials are left out; None: no row is.
    """
    groups = comparable_groups(reading.table)
    shown = [group for group in groups if keys is None or not keys.isdisjoint(group.keys)]
    notes = [*foreign(shown), *shortcomings(rows_of(reading.table, keys)), *unreadable(reading)]
    if not shown:
        return [_empty([nothing_yet(reading.table, store), *notes])]
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


def _empty(notes: Sequence[str]) -> Table:
    return Table(notes=notes, make_records=STORE_SCHEMA.empty_table)


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
    return Table(
        title="" if own else f"suite {groups[0].suite}",
        columns=[*names, "n", *(column.heading for column in columns)],
        text_columns=len(names),
        sections=[Section("", shown)],
        caption=_caption(
            f"{card.units}, mean±sample std over n seeds{by if selected else ''}. {card.protocol}",
            groups,
        ),
        notes=leak_notes(rows),
        make_records=lambda: store_records(groups, best_of(shown)),
        metrics=[column.name for column in columns],
        averages=_averages(columns),
        show_options=store_option(store),
    )


def own_table(
    reading: Reading, store: Path | str, rows: Sequence[str], columns: Sequence[str]
) -> Table:
    """A table with a row for each value of `rows`, and a column for each metric of `columns`.

    A name with commas may be given in its parts. Of several groups in a row, the one with the best
    dev score is shown. Without `columns` the table has the dev score and the averages. Raises
    UserError for a name that no trial has.
    """
    groups = comparable_groups(reading.table)
    if not groups:
        return _empty([nothing_yet(reading.table, store), *unreadable(reading)])
    measured = columns_of(groups)
    rows = _named("--rows", rows, {name for group in groups for name in _traits(group)})
    columns = _named("--columns", columns, measured)
    names = columns or [DEV, *(name for name, column in measured.items() if column.is_average)]
    alike = _by_row(groups, rows or DEFAULT_ROWS)
    chosen = {name: best_on_dev(candidates) for name, candidates in alike.items()}
    numbers = group_numbers(groups)
    own = _distinct([with_decimals(measured[name], list(chosen.values())) for name in names])
    own_rows = [_own_row(name, group, own, numbers) for name, group in chosen.items()]
    shown = ranked(own_rows, [column.direction for column in own], store)
    return Table(
        columns=[*(rows or DEFAULT_ROWS), "n", *(column.heading for column in own)],
        text_columns=len(rows or DEFAULT_ROWS),
        sections=[Section("", shown)],
        caption=_caption(_units(own), list(chosen.values())),
        notes=[
            *leak_notes(shown),
            *foreign(chosen.values()),
            *_choices(alike, chosen, numbers),
            *unreadable(reading),
        ],
        make_records=lambda: _records(list(chosen.values()), own, best_of(shown)),
        metrics=names,
        averages=_averages(own),
        show_options=store_option(store),
    )


def _named(option: str, parts: Sequence[str], known: Collection[str]) -> list[str]:
    names = names_in(parts, known.__contains__)
    for name in names:
        if not name:
            typed = ",".join(parts)
            raise UserError(f"{option} {typed}: write names with commas between them, without gaps")
        if name not in known:
            raise UserError(f'{option}: no trial of the store has "{name}"{meant(name, known)}')
    return names


def _by_row(groups: Sequence[Group], rows: Sequence[str]) -> dict[tuple[str, ...], list[Group]]:
    """The names of a row -> the groups that it may show, in the order of the table."""
    alike: dict[tuple[str, ...], list[Group]] = defaultdict(list)
    for group in groups:
        own = _traits(group)
        values = [own.get(name) for name in rows]
        alike[tuple("" if value is None else text_of(value) for value in values)].append(group)
    return {names: alike[names] for names in sorted(alike, key=lambda row: [*map(_order, row)])}


def _traits(group: Group) -> dict[str, Any]:
    """The hyperparameters of a group, and what else makes its trials comparable, by name."""
    identity = dict(zip(IDENTITY_COLUMNS, group.identity, strict=True))
    del identity["configuration"]
    return {**group.configuration, **identity, "n": len(group.trials)}


def _order(text: str) -> tuple[bool, float, str]:
    """Numbers come first, in their own order."""
    try:
        return False, float(text), ""
    except ValueError:
        return True, 0.0, text


def _distinct(columns: Sequence[Column]) -> list[Column]:
    """The columns; those of tests that share a heading have their names in its place."""
    headings = [column.heading for column in columns]
    return [
        replace(column, heading=column.name)
        if column.card and headings.count(column.heading) > 1
        else column
        for column in columns
    ]


def _own_row(
    names: tuple[str, ...], group: Group, columns: Sequence[Column], numbers: GroupNumbers
) -> Row:
    cells = tuple(column.cell(group) for column in columns)
    sizes = [cell.ours.n if cell.ours else 0 for cell in cells]
    whole = {size for size in sizes if size} <= {len(group.trials)}
    return Row(
        names,
        group.n if whole else n_text([*map(str, sizes)]),
        cells,
        address=str(numbers[group.identity]),
        complete=all(sizes),
    )


def _units(columns: Sequence[Column]) -> str:
    """The beginning of the caption of one's own table."""
    cards = {column.card.name: column.card for column in columns if column.card}
    units = [
        f"{card.name}: {card.units}" if len(cards) > 1 else card.units for card in cards.values()
    ]
    text = "mean±sample std over n seeds; selected on dev, test never selects."
    return "; ".join(filter(None, ["; ".join(units), text]))


def _caption(beginning: str, groups: Sequence[Group]) -> str:
    parts = [
        beginning.strip(),
        f"{NO_SEED}: nothing is trained, so there is no seed."
        if any(group.n == NO_SEED for group in groups)
        else "",
        OVER_SUBSETS if any(group.subsets > 1 for group in groups) else "",
        made_on(trial for group in groups for trial in group.trials),
    ]
    return " ".join(filter(None, parts))


def _averages(columns: Iterable[Column]) -> list[str]:
    """The columns that stand first where a terminal is narrow."""
    return [*(column.name for column in columns if column.is_average), DEV]


def _choices(
    alike: Mapping[tuple[str, ...], list[Group]],
    chosen: Mapping[tuple[str, ...], Group],
    numbers: GroupNumbers,
) -> list[str]:
    """A note about the rows for which there were several groups of comparable trials."""
    several = [
        f"row {numbers[group.identity]} ({short_names(groups)[groups.index(group)]}, one of "
        f"{len(groups)})"
        for names, group in chosen.items()
        if len(groups := alike[names]) > 1
    ]
    if not several:
        return []
    return [
        "of several groups of comparable trials, the one with the best mean dev score is shown: "
        f"{', '.join(first_of(several))}"
    ]


def _records(groups: Sequence[Group], columns: Sequence[Column], best: Collection[int]) -> pa.Table:
    """The scores of the columns as data."""
    table = store_records((part for group in groups for part in group.parts), best)
    tests = {(column.card.name, column.metric) for column in columns if column.card}
    dev = {column.metric for column in columns if column.card is None}
    keep = [
        ((row["suite"], row["metric"]) in tests if row["split"] == "test" else row["metric"] in dev)
        or (DEV in dev and row["split"] == "dev")
        or (DEV_BEFORE in dev and row["split"] == "dev_before")
        for row in table.select(["suite", "metric", "split"]).to_pylist()
    ]
    return table.filter(pa.array(keep, pa.bool_()))
