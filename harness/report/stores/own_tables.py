"""One's own table of a store: the rows and columns that a user names."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from harness.errors import UserError
from harness.evaluation.catalogue import Metric
from harness.inputs import names_in
from harness.report.measured.group_filter import filtered, traits
from harness.report.measured.groups import NO_SEED, Group, comparable_groups
from harness.report.published.matching import best_on_dev
from harness.report.sheets.leaks import leak_notes
from harness.report.sheets.notes import (
    SHOWN,
    foreign,
    made_on,
    nothing_such,
    nothing_yet,
    unreadable,
)
from harness.report.sheets.rows import ScoreRow, n_text
from harness.report.sheets.sheet import OVER_SUBSETS, Section, Sheet, best_of
from harness.report.stores.chosen_rows import names as names_of_groups
from harness.report.stores.named_metrics import NamedMetric, meant, named_metrics
from harness.report.stores.row_names import text_of
from harness.report.stores.score_columns import ScoreColumn, decimals_of, rank_rows
from harness.report.stores.store_records import STORE_SCHEMA, records_of
from harness.report.stores.store_tables import GroupNumbers, group_numbers
from harness.trials.record_files import Reading
from harness.trials.store_folders import store_option

DEFAULT_ROWS = ("method", "setting", "encoder")
"""The rows where a user names none"""


def own_sheet(
    reading: Reading,
    store: Path | str,
    rows: Sequence[str],
    columns: Sequence[str],
    where: str | None = None,
) -> Sheet:
    """A table with a row for each value of `rows`, and a column for each metric of `columns`.

    A name with commas may be given in its parts. Of several groups in a row, the one with the best
    dev score is shown. Without `columns` the table has the dev score and the averages. Raises
    UserError for a name that no trial has.
    """
    groups = comparable_groups(reading.table)
    if not groups:
        return _empty(nothing_yet(reading.table, store), reading)
    known = {name for group in groups for name in traits(group)}
    metrics = named_metrics(groups)
    rows = _named("--rows", rows, known) or DEFAULT_ROWS
    columns = _named("--columns", columns, metrics)
    shown = filtered(groups, where)
    if not shown:
        return _empty(nothing_such(where), reading)
    names = columns or ["dev", *(name for name, each in metrics.items() if each.is_average)]
    wanted = {name: metrics[name] for name in names}
    numbers, notes = group_numbers(groups), unreadable(reading)
    return _sheet(shown, numbers, rows, wanted, notes, store)


def _empty(note: str, reading: Reading) -> Sheet:
    return Sheet("", [], 0, [], "", [note, *unreadable(reading)], STORE_SCHEMA.empty_table)


def _named(option: str, parts: Sequence[str], known: Collection[str]) -> list[str]:
    names = names_in(parts, known.__contains__)
    for name in names:
        if not name:
            given = ",".join(parts)
            raise UserError(f"{option} {given}: write names with commas between them, without gaps")
        if name not in known:
            raise UserError(f'{option}: no trial of the store has "{name}"{meant(name, known)}')
    return names


def _sheet(
    groups: Sequence[Group],
    numbers: GroupNumbers,
    rows: Sequence[str],
    metrics: Mapping[str, NamedMetric],
    notes: list[str],
    store: Path | str,
) -> Sheet:
    alike: dict[tuple[str, ...], list[Group]] = defaultdict(list)
    for group in groups:
        own = traits(group)
        named = [own.get(name) for name in rows]
        alike[tuple("" if value is None else text_of(value) for value in named)].append(group)
    chosen = {
        names: best_on_dev(alike[names])
        for names in sorted(alike, key=lambda names: [_order(name) for name in names])
    }
    columns = [_column(name, metrics, list(chosen.values())) for name in metrics]
    averages = [name for name, each in metrics.items() if each.is_average]
    made = [_row(names, group, columns, numbers) for names, group in chosen.items()]
    ranked = rank_rows(made, columns, averages, store)
    return Sheet(
        title="",
        columns=[*rows, "n", *(column.heading for column in columns)],
        text_columns=len(rows),
        sections=[Section("", ranked)],
        caption=_caption(list(chosen.values()), list(metrics.values())),
        notes=[
            *leak_notes(made),
            *foreign(chosen.values()),
            *_choices(alike, chosen, numbers),
            *notes,
        ],
        make_records=lambda: _records(
            list(chosen.values()), list(metrics.values()), best_of(ranked)
        ),
        metrics=list(metrics),
        averages=[*averages, "dev"],
        show_options=store_option(store),
    )


def _order(text: str) -> tuple[bool, float, str]:
    """Numbers come first, in their own order."""
    try:
        return False, float(text), ""
    except ValueError:
        return True, 0.0, text


def _column(name: str, metrics: Mapping[str, NamedMetric], groups: list[Group]) -> ScoreColumn:
    found = metrics[name]
    if found.part is None:
        return ScoreColumn(found.heading, name, found.cell)
    same = [each for each in metrics.values() if each.heading == found.heading]
    suite = str(found.part.suite)
    parts = [part for group in groups if (part := group.measured(suite))]
    measured = [part for part in parts if found.metric in part.test]
    return ScoreColumn(
        found.heading if len(same) == 1 else name,
        name,
        found.cell,
        decimals_of(measured, found.metric) if measured else 2,
        Metric(found.part.card.name, found.metric),
        found.part.card.directions.get(found.metric, 1),
    )


def _row(
    names: tuple[str, ...], group: Group, columns: Sequence[ScoreColumn], numbers: GroupNumbers
) -> ScoreRow:
    cells = tuple(column.sheet_cell(group) for column in columns)
    scored = [cell.score for cell in cells]
    sizes = {cell.n for cell in scored if cell}
    n = n_text([str(cell.n if cell else 0) for cell in scored])
    return ScoreRow(
        names,
        group.n if sizes <= {len(group.trials)} else n,
        cells,
        address=str(numbers[group.identity]),
        complete=all(scored),
    )


def _caption(groups: list[Group], metrics: Sequence[NamedMetric]) -> str:
    cards = {each.part.card.name: each.part.card for each in metrics if each.part}
    units = [
        f"{card.name}: {card.units}" if len(cards) > 1 else card.units for card in cards.values()
    ]
    parts = [
        f"{'; '.join(units)}; mean±sample std over n seeds; selected on dev, test never selects.",
        f"{NO_SEED}: nothing is trained, so there is no seed."
        if any(group.n == NO_SEED for group in groups)
        else "",
        OVER_SUBSETS if any(group.subsets > 1 for group in groups) else "",
        made_on(trial for group in groups for trial in group.trials),
    ]
    return " ".join(part for part in parts if part).removeprefix("; ")


def _choices(
    alike: Mapping[tuple[str, ...], list[Group]],
    chosen: Mapping[tuple[str, ...], Group],
    numbers: GroupNumbers,
) -> list[str]:
    """A note about the rows for which there were several groups of comparable trials."""
    several = [
        f"row {numbers[group.identity]} ({names_of_groups(found)[found.index(group)]}, one of "
        f"{len(found)})"
        for names, group in chosen.items()
        if len(found := alike[names]) > 1
    ]
    if not several:
        return []
    more = [f"and {len(several) - SHOWN} more"] if several[SHOWN:] else []
    return [
        "of several groups of comparable trials, the one with the best mean dev score is shown: "
        f"{', '.join([*several[:SHOWN], *more])}"
    ]


def _records(
    groups: Sequence[Group], metrics: Sequence[NamedMetric], best: Collection[int]
) -> pa.Table:
    """The scores of the columns as data."""
    table = records_of((part for group in groups for part in group.parts), best)
    tests = {(str(each.part.suite), each.metric) for each in metrics if each.part}
    dev = {each.metric for each in metrics if each.part is None}
    keep = [
        ((row["suite"], row["metric"]) in tests if row["split"] == "test" else row["metric"] in dev)
        or ("dev" in dev and row["split"] == "dev")
        or ("dev-before" in dev and row["split"] == "dev_before")
        for row in table.select(["suite", "metric", "split"]).to_pylist()
    ]
    return table.filter(pa.array(keep, pa.bool_()))
