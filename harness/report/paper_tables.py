"""The tables of a paper: each published number, ours beside it, and how to run what is missing."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from harness.evaluation.catalogue import DISPLAY, LAYOUTS
from harness.report.comparison import Comparison, compare
from harness.report.groups import comparable_groups
from harness.report.matching import Finder, command, evaluation, obstacle
from harness.report.notes import unreadable
from harness.report.reported import Paper, Systems, Table, load_paper, load_systems
from harness.report.sheet import (
    CELL,
    OVER_SUBSETS,
    Line,
    Section,
    Sheet,
    cell_record,
    component_lines,
    difference,
    key_list,
    score,
)
from harness.trials.store import Reading

RECORDS = pa.schema(
    [
        *(
            (name, pa.string())
            for name in ("paper", "table", "group", "label", "system", "variant")
        ),
        *((name, pa.string()) for name in ("method", "setting", "encoder", "column", "origin")),
        ("published", pa.float64()),  # in the units of the table, as ours
        ("published_std", pa.float64()),
        *CELL,
        ("delta", pa.float64()),  # ours - published
        ("candidates", pa.int64()),  # groups of comparable trials to choose from
        ("keys", pa.string()),  # beginnings of the trials' keys
        ("command", pa.string()),
        ("obstacle", pa.string()),  # why the command cannot be run yet
    ]
)


def paper_sheets(reading: Reading, name: str, methods: Collection[str], store: Path) -> list[Sheet]:
    """The compared tables of the paper `name` with ours; `methods` are those that can be run today."""
    paper, systems, finder = (
        load_paper(name),
        load_systems(),
        Finder(comparable_groups(reading.table)),
    )
    sheets = [_sheet(paper, table, systems, finder, methods, store) for table in paper.compared]
    return [*sheets[:-1], replace(sheets[-1], notes=[*sheets[-1].notes, *unreadable(reading)])]


def _sheet(
    paper: Paper,
    table_name: str,
    systems: Systems,
    finder: Finder,
    methods: Collection[str],
    store: Path,
) -> Sheet:
    table = paper.tables[table_name]
    sections = compare(table, f"{paper.paper}.{table_name}", systems, finder)
    comparisons = [each for _, rows in sections for row in rows for each in row]
    origins = list(
        dict.fromkeys(name for each in comparisons for name in (str(each.row.origin), each.origin))
    )
    return Sheet(
        title=f"{paper.title}. Table {table_name.removeprefix('table')}: {table.about}",
        columns=["", "", "n", *map(str, table.columns)],
        text_columns=2,
        sections=[
            Section(
                heading, [line for row in rows for line in _lines(row, origins, table, methods)]
            )
            for heading, rows in sections
        ],
        caption=_caption(table),
        notes=[
            *(
                f"[{index}] {origin.replace('quoted:', 'quoted from ')}"
                for index, origin in enumerate(origins, 1)
            ),
            *(
                f"published, {column}: {runs}"
                for column, runs in table.runs.items()
                if column in table.columns
            ),
            *_choices(comparisons),
            *_to_fill(comparisons, methods, store),
        ],
        records=pa.Table.from_pylist(
            [
                {"paper": paper.paper, "table": table_name, **_record(each, methods, store)}
                for each in comparisons
            ],
            schema=RECORDS,
        ),
    )


def _caption(table: Table) -> str:
    protocol = LAYOUTS[table.suite].protocol
    return (
        (
            f"{table.metric[0].upper()}{table.metric[1:]}; ours: mean±sample std over n seeds, "
            "selected on dev, test never selects; Δ = ours - published."
        )
        + (f" Ours: {protocol}" if protocol else "")
        + (f" {OVER_SUBSETS}" if table.fractions else "")
    )


def _lines(
    row: list[Comparison], origins: list[str], table: Table, methods: Collection[str]
) -> list[Line]:
    """Published; ours and Δ where something has been measured, or that there is no method to run."""
    reported = row[0].row
    runs = str(table.runs.get(reported.system, "")) if reported.origin == "this paper" else ""
    label = f"{reported.label} {_source(str(reported.origin), origins)}"
    lines = [[label, "published", runs, *(_published(each, origins) for each in row)]]
    cells, places = [each.cell for each in row], [each.decimals for each in row]
    if any(cells):
        lines.append(["", "ours", _n(row), *map(score, cells, places)])
        lines += [["", said, "", *numbers] for said, numbers in component_lines(cells, places)]
        lines.append(["", "Δ", "", *(difference(each.delta, each.decimals) for each in row)])
    elif _without_method(row, methods):
        lines.append(["", "no method", "", *("" for _ in row)])
    return lines


def _without_method(row: list[Comparison], methods: Collection[str]) -> bool:
    needed = {each.wanted.method for each in row if each.wanted}
    return bool(needed) and needed.isdisjoint(methods)


def _published(each: Comparison, origins: list[str]) -> str:
    """With its own source where that is not the row's."""
    if each.published is None:
        return ""
    source = "" if each.origin == each.row.origin else f" {_source(each.origin, origins)}"
    return (
        f"{each.published:.{each.decimals}f}"
        + ("" if each.published_std is None else f"±{each.published_std}")
        + source
    )


def _source(origin: str, origins: list[str]) -> str:
    return f"[{origins.index(origin) + 1}]"


def _n(row: list[Comparison]) -> str:
    """One number where all columns are the same trials, else one for each column."""
    numbers = [each.measured.n if each.measured else "0" for each in row]
    return numbers[0] if len(set(numbers)) == 1 else "/".join(numbers)


def _choices(comparisons: Iterable[Comparison]) -> list[str]:
    """Where several groups of comparable trials could have stood in the table."""
    return list(
        dict.fromkeys(
            f"{each.wanted}: {each.found.candidates} groups of comparable trials; shown is the one "
            f"with the best mean {DISPLAY.get(each.found.group.selects, each.found.group.selects)}"
            for each in comparisons
            if each.found and each.found.candidates > 1
        )
    )


def _to_fill(comparisons: Iterable[Comparison], methods: Collection[str], store: Path) -> list[str]:
    """The commands for what has not been run or not been measured, and the rows that cannot be run yet."""
    runs: dict[str, None] = {}
    evaluations: dict[str, None] = {}
    waiting: dict[str, dict[str, None]] = defaultdict(dict)
    for each in comparisons:
        if each.found:
            for trial in each.unmeasured:
                evaluations[evaluation(trial, each.found.group, each.metric.suite, store)] = None
        elif each.wanted and (reason := obstacle(each.wanted, methods)):
            waiting[reason][f"{each.row.label} ({each.wanted.setting}, {each.wanted.encoder})"] = (
                None
            )
        elif each.wanted:
            runs[command(each.wanted, store)] = None
    commands = [*runs, *evaluations]
    return [
        *(["To fill:", *(f"  {line}" for line in commands)] if commands else []),
        *(["Not available yet:"] if waiting else []),
        *(f"  {reason}: {'; '.join(waiting[reason])}" for reason in sorted(waiting)),
    ]


def _record(each: Comparison, methods: Collection[str], store: Path) -> dict[str, object]:
    target = each.wanted
    return {
        "group": each.group,
        "label": each.row.label,
        "system": each.row.system,
        "variant": each.row.variant,
        "method": target.method if target else None,
        "setting": target.setting if target else each.row.setting,
        "encoder": target.encoder if target else each.row.encoder,
        "column": each.column,
        "origin": each.origin,
        "published": each.published,
        "published_std": each.published_std,
        **cell_record(each.cell),
        "delta": each.delta,
        "candidates": each.found.candidates if each.found else 0,
        "keys": key_list(each.measured.keys) if each.measured else "",
        "command": command(target, store) if target else None,
        "obstacle": obstacle(target, methods) if target else "quoted only",
    }
