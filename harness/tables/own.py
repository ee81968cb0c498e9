"""The table of what a store holds: one row for each group of comparable trials."""

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from harness.store import DEFAULT_STORE, Reading
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
from harness.tables.sheet import DISPLAY, Section, Sheet, counted, key_list, score, unreadable_note

RECORDS = pa.schema(
    [
        *((name, pa.string()) for name in IDENTITY[:-1]),
        ("protocol", pa.int32()),
        ("split", pa.string()),  # dev | test
        ("metric", pa.string()),
        ("mean", pa.float64()),  # Spearman x100
        ("std", pa.float64()),  # sample standard deviation over the trials; null for one
        ("n", pa.int64()),
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
    configurations = _configurations(groups)
    told = any(configurations)
    columns = ["method", "setting", "encoder", *(["configuration"] if told else []), "n", "dev before", "dev"]
    lines = [
        [
            group.method,
            group.setting,
            group.encoder,
            *([configuration] if told else []),
            group.n,
            score(group.dev.get(suite.dev + BEFORE)),
            score(group.dev.get(suite.dev)),
            *(score(group.test.get(name)) for name in tests),
        ]
        for group, configuration in zip(groups, configurations, strict=True)
    ]
    return Sheet(
        title="",
        columns=[*columns, *(DISPLAY.get(name, name) for name in tests)],
        text_columns=4 if told else 3,
        sections=[Section("", lines)],
        caption=_caption(suite, groups),
        notes=notes,
        records=_records(groups),
    )


def _caption(suite: Suite, groups: Iterable[Group]) -> str:
    caption = (
        "Spearman x100, mean±sample std over n seeds; selected on dev "
        f"({DISPLAY.get(suite.dev, suite.dev)}), test never selects."
    )
    return caption + (" 1=: nothing is trained, so no seed." if any(group.n == "1=" for group in groups) else "")


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
    """The hyperparameters as text, and the digests, shortened, that tell one plugin or datum from another."""
    hyperparameters = {name: _text(value) for name, value in group.configuration.items()}
    return hyperparameters | {name: str(value)[:8] for name, value in group.provenance.items()}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _records(groups: Iterable[Group]) -> pa.Table:
    rows = [
        dict(zip(IDENTITY, group.identity, strict=True))
        | {"split": split, "metric": metric, "mean": cell.mean, "std": cell.std, "n": cell.n}
        | {"keys": key_list(group.keys)}
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
    columns = ("method", "setting", "encoder", "seed", "reason")
    failed = trials.filter(pc.field("status") == "failed").select(columns)
    if not failed.num_rows:
        return []
    told = sorted(
        f"{row['method']} {row['setting']} {row['encoder']} seed {row['seed']} ({_one_line(row['reason'])})"
        for row in failed.to_pylist()
    )
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
