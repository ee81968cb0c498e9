"""The table of what a store holds: for each suite, one row for each group of comparable trials."""

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from harness.evaluation.catalogue import DISPLAY, rank
from harness.report.groups import Cell, Group, comparable_groups
from harness.report.measured_trials import IDENTITY_COLUMNS, Identity
from harness.report.notes import made_on, nothing_yet, shortcomings, unreadable
from harness.report.ranking import ranked
from harness.report.rows import FOREIGN, ScoreRow, SheetCell
from harness.report.sheet import (
    CELL_COLUMNS,
    OVER_SUBSETS,
    Section,
    Sheet,
    cell_record,
    key_list,
    percent_text,
)
from harness.trials.reading import Reading
from harness.trials.record_files import is_text
from harness.trials.searched import FAMILY_COLUMNS, searched_names

_Kind = tuple[str | None, ...]
"""Method, setting and encoder"""
Searched = Mapping[_Kind, Collection[str]]
Numbers = Mapping[Identity, int]
"""The number of each group among those of the store, by which `harness show` finds it"""
STORE_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in IDENTITY_COLUMNS[:-1]),
        ("protocol", pa.int32()),
        ("label_fraction", pa.float64()),  # null where the method has no such choice
        ("suite", pa.string()),
        ("split", pa.string()),  # dev_before | dev | test
        ("metric", pa.string()),
        *CELL_COLUMNS,
        ("keys", pa.string()),  # the first characters of the keys of the trials
    ]
)


@dataclass(frozen=True)
class ScoreColumn:
    """A column of scores: its heading, its name in an address, and the cell of each group."""

    heading: str
    name: str
    cell: Callable[[Group], Cell | None]
    decimals: int = 2
    direction: int = 0
    """1 where higher is better, -1 where lower is, and 0 where the column is not ranked"""


def store_sheets(reading: Reading, store: Path | str) -> list[Sheet]:
    """The sheets of a store: one for each suite and each metric that selected.

    The notes stand under the last one. `store`: its place, which a note may name.
    """
    searched = _searched(reading.table)
    parts: dict[tuple[str, str], list[Group]] = defaultdict(list)
    found = comparable_groups(reading.table)
    numbers = {group.identity: number for number, group in enumerate(found, 1)}
    for group in found:
        for part in group.parts:
            parts[part.selects, str(part.suite)].append(part)
    notes = [*shortcomings(reading.table), *unreadable(reading)]
    if not parts:
        notes = [nothing_yet(reading.table, store), *notes]
        return [Sheet("", [], 0, [], "", notes, STORE_SCHEMA.empty_table)]
    order = sorted(parts, key=lambda key: (key[0], rank(key[1]), _tasks(parts[key])))
    return [
        _sheet(parts[key], searched, numbers, notes if key == order[-1] else []) for key in order
    ]


def _searched(trials: pa.Table) -> Searched:
    """The hyperparameters that the searches of each method, setting and encoder have varied."""
    found: dict[_Kind, set[str]] = defaultdict(set)
    of_search = trials.select([*FAMILY_COLUMNS, "configuration"]).filter(
        is_text(trials["role"], "search")
    )
    for (*kind, _), names in searched_names(of_search).items():
        found[tuple(kind)].update(names)
    return found


def _sheet(groups: list[Group], searched: Searched, numbers: Numbers, notes: list[str]) -> Sheet:
    own = any(group.own for group in groups)
    dev = _dev_columns(groups, own=own)
    columns = [*dev, *_test_columns(groups)]
    names = _names(groups, searched)
    rows = [
        _row(name, group, columns, numbers[group.identity])
        for name, group in zip(zip(*names.values(), strict=True), groups, strict=True)
    ]
    averages = [name for name in (groups[0].card.average,) if name]
    ways = [column.direction for column in columns]
    return Sheet(
        title="" if own else f"suite {groups[0].suite}",
        columns=[*names, "n", *(column.heading for column in columns)],
        text_columns=len(names),
        sections=[Section("", ranked(rows, ways, _grouping(columns, averages)))],
        caption=_caption(groups, selected=any(column.heading == "dev" for column in dev)),
        notes=notes,
        make_records=lambda: records_of(groups),
        metrics=[column.name for column in columns],
        averages=[*averages, "dev"],
    )


def _grouping(columns: Sequence[ScoreColumn], averages: Sequence[str]) -> int | None:
    """The column by which rows are grouped: the average, or the only column that is ranked."""
    ranking = [index for index, column in enumerate(columns) if column.direction]
    named = [index for index in ranking if columns[index].name in averages]
    return next(iter(named or (ranking if len(ranking) == 1 else [])), None)


def _tasks(groups: list[Group]) -> tuple[str, ...]:
    return groups[0].card.tasks(name for group in groups for name in group.tasks)


def _test_columns(groups: list[Group]) -> list[ScoreColumn]:
    """The columns of the suite's metrics, with their average last."""
    card, names = groups[0].card, list(_tasks(groups))
    printed = card.average in card.headings or any(card.average in group.test for group in groups)
    if card.average and printed:
        names.append(card.average)

    def column(name: str) -> ScoreColumn:
        heading = card.headings.get(name) or DISPLAY.get(name, name)
        return ScoreColumn(
            heading,
            name,
            lambda group: group.test.get(name),
            _decimals(groups, name),
            card.directions.get(name, 1),
        )

    return [column(name) for name in names]


def _dev_columns(groups: list[Group], *, own: bool) -> list[ScoreColumn]:
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


def _decimals(groups: list[Group], name: str) -> int:
    """Digits after the point of a test metric."""
    known = groups[0].card.decimals
    if known is not None:
        return known
    means = [group.test[name].mean for group in groups if name in group.test]
    return 4 if all(abs(mean) <= 1 for mean in means) else 2


def _names(groups: list[Group], searched: Searched) -> dict[str, list[str]]:
    """The text columns, which tell the groups apart: heading -> a value for each group."""
    columns = {
        "method": [group.method for group in groups],
        "setting": [group.setting for group in groups],
        "encoder": [group.encoder for group in groups],
    }
    if any(group.label_fraction not in (None, 1) for group in groups):
        columns["labels"] = [percent_text(group.label_fraction) for group in groups]
    if any(configurations := _configurations(groups, searched)):
        columns["configuration"] = configurations
    return columns


def _row(
    names: tuple[str, ...], group: Group, columns: Sequence[ScoreColumn], number: int
) -> ScoreRow:
    tasks = {*group.tasks, *([group.card.average] if group.card.average else [])}
    return ScoreRow(
        names,
        group.n,
        tuple(
            SheetCell(
                column.cell(group),
                column.decimals,
                mark="" if group.current else FOREIGN,
                comparable=group.current,
            )
            for column in columns
        ),
        address=str(number),
        complete=tasks <= group.test.keys(),
        block=(group.setting, group.encoder, percent_text(group.label_fraction)),
    )


def _caption(groups: list[Group], *, selected: bool) -> str:
    card, selects = groups[0].card, groups[0].selects
    chosen = f"; selected on dev ({DISPLAY.get(selects, selects)}), test never selects."
    untrained = any(group.n == "1=" for group in groups)
    parts = [
        f"{card.units}, mean±sample std over n seeds" + (chosen if selected else "."),
        card.protocol,
        "1=: nothing is trained, so there is no seed." if untrained else "",
        OVER_SUBSETS if any(group.subsets > 1 for group in groups) else "",
        made_on(trial for group in groups for trial in group.trials),
    ]
    return " ".join(part for part in parts if part)


def _configurations(groups: list[Group], searched: Searched) -> list[str]:
    """For each group, what tells it from the others of its method, setting and encoder.

    The values that a search has chosen are named in any case. It is "" for a group that is the only
    one of these, and that no search has chosen.
    """
    traits = [_traits(group) for group in groups]
    alike: dict[_Kind, list[dict[str, str]]] = defaultdict(list)
    for group, own in zip(groups, traits, strict=True):
        alike[_kind(group)].append(own)
    named = {kind: _varied(found).union(searched.get(kind, ())) for kind, found in alike.items()}
    return [
        ", ".join(f"{name}={own[name]}" for name in sorted(named[_kind(group)] & own.keys()))
        for group, own in zip(groups, traits, strict=True)
    ]


def _varied(traits: list[dict[str, str]]) -> set[str]:
    """The names whose values differ, or that some of them lack."""
    names = {name for own in traits for name in own}
    return {name for name in names if len({own.get(name) for own in traits}) > 1}


def _kind(group: Group) -> _Kind:
    return group.method, group.setting, group.encoder


def _traits(group: Group) -> dict[str, str]:
    """The hyperparameters and the shortened digests of a group, as text.

    The label fraction is left out, because it is a column of its own, and so is label subset 0,
    which is the default.
    """
    hyperparameters = {
        name: _text(value)
        for name, value in group.configuration.items()
        if name != "label_fraction" and (name, value) != ("subset", 0)
    }
    return hyperparameters | {name: str(value)[:8] for name, value in group.provenance.items()}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def records_of(groups: Iterable[Group]) -> pa.Table:
    """The scores of groups, each of one suite, as a table of STORE_SCHEMA."""
    rows = [
        {
            **dict(zip(IDENTITY_COLUMNS, group.identity, strict=True)),
            "label_fraction": group.label_fraction,
            "suite": group.suite,
            "keys": key_list(group.keys),
            "split": split,
            "metric": metric,
            **cell_record(cell),
        }
        for group in groups
        for split, metric, cell in split_cells(group)
    ]
    return pa.Table.from_pylist(rows, schema=STORE_SCHEMA)


def split_cells(group: Group) -> list[tuple[str, str, Cell]]:
    """(split, metric, cell) of the scores that the suite measured."""
    measured = {name for trial in group.trials for name in trial.suites[str(group.suite)].dev}
    before = group.dev_before if group.own else None
    return [
        *([("dev_before", group.selects, before)] if before else []),
        *(("dev", name, cell) for name, cell in sorted(group.dev.items()) if name in measured),
        *(("test", name, cell) for name, cell in sorted(group.test.items())),
    ]
