"""Table 1 of a paper: each published number, ours beside it, and how to run what is missing."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from harness.store import Reading
from harness.tables.aggregate import Cell, comparable_groups
from harness.tables.matching import Finder, Found, Wanted, cell_of, command, obstacle, run_of, wanted
from harness.tables.reported import Paper, Row, Systems, Table, load_paper, load_systems
from harness.tables.sheet import (
    DISPLAY,
    Line,
    Section,
    Sheet,
    difference,
    key_list,
    score,
    unreadable_note,
)

RECORDS = pa.schema(
    [
        *((name, pa.string()) for name in ("paper", "table", "group", "label", "system", "variant")),
        *((name, pa.string()) for name in ("method", "setting", "encoder", "column", "origin")),
        ("published", pa.float64()),  # Spearman x100, as ours
        ("published_std", pa.float64()),
        ("mean", pa.float64()),
        ("std", pa.float64()),  # sample standard deviation; null for one trial
        ("n", pa.int64()),
        ("delta", pa.float64()),  # ours - published
        ("candidates", pa.int64()),  # groups of comparable trials to choose from
        ("keys", pa.string()),  # beginnings of the trials' keys
        ("command", pa.string()),
        ("obstacle", pa.string()),  # why the command cannot be run yet
    ]
)

STORE_NAMES = {shown: name for name, shown in DISPLAY.items()}


@dataclass(frozen=True)
class Comparison:
    """One published number beside ours."""

    group: str
    row: Row
    column: str
    published: float | None
    published_std: float | None
    wanted: Wanted | None
    found: Found | None
    cell: Cell | None

    @property
    def delta(self) -> float | None:
        """Ours - published, where both are there."""
        return None if self.cell is None or self.published is None else self.cell.mean - self.published


def paper_sheet(reading: Reading, name: str, methods: Collection[str], store: Path) -> Sheet:
    """Table 1 of the paper `name` with ours; `methods` are those that can be run today."""
    paper, systems = load_paper(name), load_systems()
    table = paper.tables["table1"]
    sections = _compare(paper, systems, Finder(comparable_groups(reading.table)))
    comparisons = [each for _, rows in sections for row in rows for each in row]
    origins = list(dict.fromkeys(str(each.row.origin) for each in comparisons))
    return Sheet(
        title=f"{paper.title}. Table 1: {table.about}",
        columns=["", "", "n", *map(str, table.columns)],
        text_columns=2,
        sections=[
            Section(heading, [line for row in rows for line in _lines(row, origins, table, methods)])
            for heading, rows in sections
        ],
        caption=(
            f"{table.metric[0].upper()}{table.metric[1:]}; ours: mean±sample std over n seeds, "
            "selected on dev, test never selects; Δ = ours - published."
        ),
        notes=[
            *(f"[{index}] {origin.replace('quoted:', 'quoted from ')}" for index, origin in enumerate(origins, 1)),
            *_choices(comparisons),
            *_to_fill(comparisons, methods, store),
            *unreadable_note(reading),
        ],
        records=pa.Table.from_pylist([_record(name, each, methods, store) for each in comparisons], schema=RECORDS),
    )


def _compare(paper: Paper, systems: Systems, finder: Finder) -> list[tuple[str, list[list[Comparison]]]]:
    """For each heading, for each row, one comparison a column."""
    table, table_name = paper.tables["table1"], f"{paper.paper}.table1"
    return [
        (
            group.name,
            [_compare_row(table, table_name, group.name, row, systems, finder) for row in group.rows],
        )
        for group in table.groups
    ]


def _compare_row(
    table: Table, table_name: str, heading: str, row: Row, systems: Systems, finder: Finder
) -> list[Comparison]:
    comparisons = []
    for index, column in enumerate(map(str, table.columns)):
        target = wanted(row, run_of(systems, table_name, row, column))
        found = finder.find(target) if target else None
        if table_name in systems.column_runs:
            cell = cell_of(found, "dev", systems.column_runs[table_name].metric)
        else:
            cell = cell_of(found, "test", STORE_NAMES[column])
        published = row.values[index]
        std = row.std[index] if row.std else None
        number = float(published) if published is not None else None
        comparisons.append(Comparison(heading, row, column, number, std, target, found, cell))
    return comparisons


def _lines(row: list[Comparison], origins: list[str], table: Table, methods: Collection[str]) -> list[Line]:
    """Published; ours and Δ where something has been run, or that there is no method to run."""
    reported = row[0].row
    source = origins.index(str(reported.origin)) + 1
    runs = str(table.runs.get(reported.system, "")) if reported.origin == "this paper" else ""
    lines = [[f"{reported.label} [{source}]", "published", runs, *map(_published, row)]]
    if any(each.found for each in row):
        lines.append(["", "ours", _n(row), *(score(each.cell) for each in row)])
        lines.append(["", "Δ", "", *(difference(each.delta) for each in row)])
    elif all(each.wanted and each.wanted.method not in methods for each in row):
        lines.append(["", "no method", "", *("" for _ in row)])
    return lines


def _published(each: Comparison) -> str:
    if each.published is None:
        return ""
    return f"{each.published:.2f}" + ("" if each.published_std is None else f"±{each.published_std}")


def _n(row: list[Comparison]) -> str:
    """One number where all columns are the same trials, else one for each column."""
    numbers = [each.found.group.n if each.found else "0" for each in row]
    return numbers[0] if len(set(numbers)) == 1 else "/".join(numbers)


def _choices(comparisons: Iterable[Comparison]) -> list[str]:
    """Where several groups of comparable trials could have stood in the table."""
    return list(
        dict.fromkeys(
            f"{each.wanted}: {each.found.candidates} groups of comparable trials; shown is the one "
            f"with the best mean {DISPLAY.get(each.found.group.suite.dev, each.found.group.suite.dev)}"
            for each in comparisons
            if each.found and each.found.candidates > 1
        )
    )


def _to_fill(comparisons: Iterable[Comparison], methods: Collection[str], store: Path) -> list[str]:
    """The commands for what has not been run, and the rows that cannot be run yet."""
    commands: dict[str, None] = {}
    waiting: dict[str, dict[str, None]] = defaultdict(dict)
    for each in comparisons:
        if each.wanted is None or each.found:
            continue
        reason = obstacle(each.wanted, methods)
        if reason:
            waiting[reason][f"{each.row.label} ({each.wanted.setting}, {each.wanted.encoder})"] = None
        else:
            commands[command(each.wanted, store)] = None
    return [
        *(["To fill:", *(f"  {line}" for line in commands)] if commands else []),
        *(["Not available yet:"] if waiting else []),
        *(f"  {reason}: {'; '.join(waiting[reason])}" for reason in sorted(waiting)),
    ]


def _record(paper: str, each: Comparison, methods: Collection[str], store: Path) -> dict[str, object]:
    target, group = each.wanted, each.found.group if each.found else None
    return {
        "paper": paper,
        "table": "table1",
        "group": each.group,
        "label": each.row.label,
        "system": each.row.system,
        "variant": each.row.variant,
        "method": target.method if target else None,
        "setting": target.setting if target else each.row.setting,
        "encoder": target.encoder if target else each.row.encoder,
        "column": each.column,
        "origin": each.row.origin,
        "published": each.published,
        "published_std": each.published_std,
        "mean": each.cell.mean if each.cell else None,
        "std": each.cell.std if each.cell else None,
        "n": each.cell.n if each.cell else 0,
        "delta": each.delta,
        "candidates": each.found.candidates if each.found else 0,
        "keys": key_list(group.keys) if group else "",
        "command": command(target, store) if target else None,
        "obstacle": obstacle(target, methods) if target else "quoted only",
    }
