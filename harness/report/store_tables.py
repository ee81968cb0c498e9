"""The table of what a store holds: for each suite, one row for each group of comparable trials."""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from harness.evaluation.catalogue import DISPLAY, Layout, layout, rank, tasks
from harness.report.groups import Cell, Group, comparable_groups
from harness.report.measured_trials import BEFORE, IDENTITY
from harness.report.notes import nothing_yet, shortcomings, unreadable
from harness.report.sheet import (
    CELL,
    OVER_SUBSETS,
    Line,
    Section,
    Sheet,
    cell_record,
    component_lines,
    key_list,
    percent,
    score,
)
from harness.trials.store import Reading

RECORDS = pa.schema(
    [
        *((name, pa.string()) for name in IDENTITY[:-1]),
        ("protocol", pa.int32()),
        ("label_fraction", pa.float64()),  # null: the method has no such choice
        ("suite", pa.string()),
        ("split", pa.string()),  # dev | test
        ("metric", pa.string()),
        *CELL,
        ("keys", pa.string()),  # beginnings of the trials' keys
    ]
)


def own_sheets(reading: Reading, store: Path) -> list[Sheet]:
    """One sheet for each suite in the store, and for each metric that selected; the notes stand under the last one."""
    parts: dict[tuple[str, str], list[Group]] = defaultdict(list)
    for group in comparable_groups(reading.table):
        for part in group.parts:
            parts[part.selects, str(part.suite)].append(part)
    notes = [*shortcomings(reading.table), *unreadable(reading)]
    if not parts:
        return [
            Sheet(
                "",
                [],
                0,
                [],
                "",
                [nothing_yet(reading.table, store), *notes],
                RECORDS.empty_table(),
            )
        ]
    order = sorted(parts, key=lambda key: (key[0], rank(key[1]), _tasks(parts[key])))
    return [_sheet(parts[key], notes if key == order[-1] else []) for key in order]


def _sheet(groups: list[Group], notes: list[str]) -> Sheet:
    suite = str(groups[0].suite)
    own = any(trial.own == suite for group in groups for trial in group.trials)
    shown = layout(suite)
    dev, test = _dev(groups, shown, own), _tests(groups, shown)
    names = _names(groups)
    places = [2] * len(dev) + [_decimals(shown, groups, name) for name in test]
    rows = zip(zip(*names.values(), strict=True), groups, strict=True)
    return Sheet(
        title="" if own else f"suite {suite}",
        columns=[*names, "n", *dev.values(), *(DISPLAY.get(name, name) for name in test)],
        text_columns=len(names),
        sections=[
            Section(
                "",
                [line for name, group in rows for line in _lines(name, group, dev, test, places)],
            )
        ],
        caption=_caption(shown, groups, selected=groups[0].selects in dev),
        notes=notes,
        records=_records(groups),
    )


def _tasks(groups: list[Group]) -> tuple[str, ...]:
    return tasks(str(groups[0].suite), (name for group in groups for name in group.tasks))


def _tests(groups: list[Group], shown: Layout) -> list[str]:
    """The suite's metrics, their average last."""
    average = shown.average
    averaged = average and (
        average in shown.headings or any(average in group.test for group in groups)
    )
    return [*_tasks(groups), *([average] if average and averaged else [])]


def _dev(groups: list[Group], shown: Layout, own: bool) -> dict[str, str]:
    """The dev metrics with their headings: what selected, also before training where the trials were scored with this
    suite, and the suite's own."""
    selects = groups[0].selects
    if own:
        return {selects + BEFORE: "dev before", selects: "dev"}
    headings = {selects: "dev"} | (
        {shown.dev: DISPLAY[shown.dev]} if shown.dev and shown.dev != selects else {}
    )
    return {
        name: heading
        for name, heading in headings.items()
        if any(name in group.dev for group in groups)
    }


def _decimals(shown: Layout, groups: list[Group], name: str) -> int:
    if shown.decimals is not None:
        return shown.decimals
    return (
        4 if all(abs(group.test[name].mean) <= 1 for group in groups if name in group.test) else 2
    )


def _names(groups: list[Group]) -> dict[str, list[str]]:
    """The text columns, each with a value for each group: what tells the groups from one another."""
    columns = {
        "method": [group.method for group in groups],
        "setting": [group.setting for group in groups],
        "encoder": [group.encoder for group in groups],
    }
    if any(group.label_fraction not in (None, 1) for group in groups):
        columns["labels"] = [percent(group.label_fraction) for group in groups]
    if any(configurations := _configurations(groups)):
        columns["configuration"] = configurations
    return columns


def _lines(
    name: Sequence[str],
    group: Group,
    dev: Iterable[str],
    test: Iterable[str],
    places: Sequence[int],
) -> list[Line]:
    """The group's scores; under them the components of their variance where several subsets were drawn."""
    cells = [
        *(group.dev.get(metric) for metric in dev),
        *(group.test.get(metric) for metric in test),
    ]
    blank = [""] * len(name)  # n too; the first column says what the numbers are
    return [
        [*name, group.n, *map(score, cells, places)],
        *([said, *blank, *numbers] for said, numbers in component_lines(cells, places)),
    ]


def _caption(shown: Layout, groups: list[Group], *, selected: bool) -> str:
    selects = groups[0].selects
    return (
        f"{shown.unit}, mean±sample std over n seeds"
        + (
            f"; selected on dev ({DISPLAY.get(selects, selects)}), test never selects."
            if selected
            else "."
        )
        + (f" {shown.protocol}" if shown.protocol else "")
        + (
            " 1=: nothing is trained, so no seed."
            if any(group.n == "1=" for group in groups)
            else ""
        )
        + (f" {OVER_SUBSETS}" if any(group.subsets > 1 for group in groups) else "")
    )


def _configurations(groups: list[Group]) -> list[str]:
    """For each group, what tells it from the others of its method, setting and encoder ("" where alone)."""
    traits = [_traits(group) for group in groups]
    values: dict[tuple[str, str, str, str], set[str | None]] = defaultdict(set)
    names = sorted({name for own in traits for name in own})
    for group, own in zip(groups, traits, strict=True):
        for name in names:
            values[group.method, group.setting, group.encoder, name].add(own.get(name))
    return [
        ", ".join(
            f"{name}={own[name]}"
            for name in sorted(own)
            if len(values[group.method, group.setting, group.encoder, name]) > 1
        )
        for group, own in zip(groups, traits, strict=True)
    ]


def _traits(group: Group) -> dict[str, str]:
    """The hyperparameters as text (the share of the labels is a column of its own, and subset 0 is all of them), and
    the digests, shortened, that tell one plugin or datum from another."""
    hyperparameters = {
        name: _text(value)
        for name, value in group.configuration.items()
        if name != "label_fraction" and (name, value) != ("subset", 0)
    }
    return hyperparameters | {name: str(value)[:8] for name, value in group.provenance.items()}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _records(groups: Iterable[Group]) -> pa.Table:
    rows = [
        dict(zip(IDENTITY, group.identity, strict=True))
        | {
            "label_fraction": group.label_fraction,
            "suite": group.suite,
            "keys": key_list(group.keys),
        }
        | {"split": split, "metric": metric}
        | cell_record(cell)
        for group in groups
        for split, metric, cell in _cells(group)
    ]
    return pa.Table.from_pylist(rows, schema=RECORDS)


def _cells(group: Group) -> list[tuple[str, str, Cell]]:
    """The dev scores that the suite measured, the test scores."""
    measured = {name for trial in group.trials for name in trial.suites[str(group.suite)].dev}
    return [
        (split, metric, cells[metric])
        for split, cells in (("dev", group.dev), ("test", group.test))
        for metric in sorted(cells)
        if split == "test" or metric in measured
    ]
