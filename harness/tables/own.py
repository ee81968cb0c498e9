"""The table of what a store holds: one row for each group of comparable trials."""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from harness.store import DEFAULT_STORE, Reading, label
from harness.tables.aggregate import (
    AVERAGE,
    BEFORE,
    IDENTITY,
    STS_TASKS,
    Cell,
    Group,
    Suite,
    comparable_groups,
)
from harness.tables.sheet import (
    CELL,
    DISPLAY,
    OVER_SUBSETS,
    Line,
    Section,
    Sheet,
    cell_record,
    component_lines,
    counted,
    key_list,
    percent,
    score,
    unreadable_note,
)

RECORDS = pa.schema(
    [
        *((name, pa.string()) for name in IDENTITY[:-1]),
        ("protocol", pa.int32()),
        ("label_fraction", pa.float64()),  # null: the method has no such choice
        ("split", pa.string()),  # dev | test
        ("metric", pa.string()),
        *CELL,
        ("keys", pa.string()),  # beginnings of the trials' keys
    ]
)

FAILURES_SHOWN = 5


def own_sheets(reading: Reading, store: Path) -> list[Sheet]:
    """One sheet for each suite in the store; the notes stand under the last one."""
    groups = comparable_groups(reading.table)
    notes = [*_failures(reading.table), *unreadable_note(reading)]
    if not groups:
        return [Sheet("", [], 0, [], "", [_nothing_yet(reading.table, store), *notes], RECORDS.empty_table())]
    suites: dict[Suite, list[Group]] = defaultdict(list)
    for group in groups:
        suites[group.suite].append(group)
    last = max(suites)
    return [_sheet(suite, suites[suite], notes if suite == last else []) for suite in sorted(suites)]


def _sheet(suite: Suite, groups: list[Group], notes: list[str]) -> Sheet:
    averaged = suite.tasks == STS_TASKS or any(AVERAGE in group.test for group in groups)
    tests = [*suite.tasks, *([AVERAGE] if averaged else [])]
    names = _names(groups)
    rows = zip(zip(*names.values(), strict=True), groups, strict=True)
    return Sheet(
        title="",
        columns=[*names, "n", "dev before", "dev", *(DISPLAY.get(name, name) for name in tests)],
        text_columns=len(names),
        sections=[Section("", [line for name, group in rows for line in _lines(name, group, suite, tests)])],
        caption=_caption(suite, groups),
        notes=notes,
        records=_records(groups),
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


def _lines(name: Sequence[str], group: Group, suite: Suite, tests: list[str]) -> list[Line]:
    """The group's scores; under them the components of their variance where several subsets were drawn."""
    dev = [group.dev.get(suite.dev + BEFORE), group.dev.get(suite.dev)]
    cells = [*dev, *(group.test.get(test) for test in tests)]
    blank = [""] * len(name)  # n too; the first column says what the numbers are
    return [
        [*name, group.n, *map(score, cells)],
        *([said, *blank, *numbers] for said, numbers in component_lines(cells)),
    ]


def _caption(suite: Suite, groups: list[Group]) -> str:
    caption = (
        "Spearman x100, mean±sample std over n seeds; selected on dev "
        f"({DISPLAY.get(suite.dev, suite.dev)}), test never selects."
    )
    return (
        caption
        + (" 1=: nothing is trained, so no seed." if any(group.n == "1=" for group in groups) else "")
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
        | {"label_fraction": group.label_fraction, "split": split, "metric": metric, "keys": key_list(group.keys)}
        | cell_record(cell)
        for group in groups
        for split, metric, cell in _cells(group)
    ]
    return pa.Table.from_pylist(rows, schema=RECORDS)


def _cells(group: Group) -> list[tuple[str, str, Cell]]:
    return [
        (split, metric, cells[metric])
        for split, cells in (("dev", group.dev), ("test", group.test))
        for metric in sorted(cells)
    ]


def _failures(trials: pa.Table) -> list[str]:
    """How many trials failed, and why the first ones did."""
    columns = ("method", "setting", "encoder", "seed", "label_fraction", "subset", "reason")
    failed = trials.filter(pc.field("status") == "failed").select(columns)
    if not failed.num_rows:
        return []
    told = sorted(f"{label(row)} ({_one_line(row['reason'])})" for row in failed.to_pylist())
    shown = [
        *told[:FAILURES_SHOWN],
        *([f"and {len(told) - FAILURES_SHOWN} more"] if told[FAILURES_SHOWN:] else []),
    ]
    return [f"{counted(len(told), 'failed trial')}: {'; '.join(shown)}"]


def _one_line(text: str | None) -> str:
    return " ".join((text or "no reason given").split())


def _nothing_yet(trials: pa.Table, store: Path) -> str:
    option = "" if store == DEFAULT_STORE else f" --store {store}"
    there = f" (of {counted(trials.num_rows, 'trial')} none is final and finished)" if trials.num_rows else ""
    return f"nothing to show in {store} yet{there}; run: harness sweep search_spaces/quickstart.yaml{option}"
