"""The rows of a published table as data: one for each value of the paper."""

from collections.abc import Collection

import pyarrow as pa

from harness.report.published.commands import Commands
from harness.report.published.compared import ComparedNumber, ComparedTable
from harness.report.sheets.sheet import CELL_COLUMNS, cell_record, key_list

PAPER_SCHEMA = pa.schema(
    [
        *(
            (name, pa.string())
            for name in ("paper", "table", "group", "label", "system", "variant")
        ),
        *((name, pa.string()) for name in ("method", "setting", "encoder", "column", "origin")),
        ("value", pa.string()),  # published, as the paper prints it
        ("ours", pa.string()),  # where the value is no number: our default, our sentence
        ("published", pa.float64()),  # in the units of the table, like our mean
        ("published_std", pa.float64()),
        ("suite", pa.string()),  # that has measured our trials
        ("protocol", pa.int32()),  # of our trials
        *CELL_COLUMNS,
        ("delta", pa.float64()),  # our mean - published
        ("candidates", pa.int64()),  # number of groups among which one was chosen
        ("keys", pa.string()),  # the first characters of the keys of the trials
        ("command", pa.string()),
        ("obstacle", pa.string()),  # why the command cannot be run yet
    ]
)


def paper_records(
    table: ComparedTable,
    commands: Commands,
    ours: dict[int, str] | None = None,
    best: Collection[int] | None = None,
) -> pa.Table:
    """A row for each value. best: as `best_of`.

    `ours`: place of a value among all -> ours, where it is no number.
    """
    rows = [_record(table, each, commands, best) for each in table.numbers]
    for place, text in (ours or {}).items():
        rows[place]["ours"] = text
    return pa.Table.from_pylist(rows, schema=PAPER_SCHEMA)


def _record(
    table: ComparedTable, each: ComparedNumber, commands: Commands, best: Collection[int] | None
) -> dict[str, object]:
    target, group = each.wanted, each.found.group if each.found else None
    return {
        "paper": table.paper.paper,
        "table": table.name,
        "group": each.group,
        "label": each.row.label,
        "system": each.row.system,
        "variant": each.row.variant,
        "method": target.method if target else None,
        "setting": target.setting if target else each.row.setting,
        "encoder": target.encoder if target else None,
        "column": each.column,
        "origin": each.origin,
        "value": each.printed or None,
        "published": each.published,
        "published_std": each.published_std,
        "suite": each.measured.suite if each.cell and each.measured else None,
        "protocol": group.provenance["protocol"] if group else None,
        **cell_record(each.cell, best),
        "delta": each.delta,
        "candidates": each.found.candidates if each.found else 0,
        "keys": key_list(each.cell.keys) if each.cell else "",
        "command": commands.sweep(target) if target else None,
        "obstacle": commands.obstacle(target) if target else "quoted only",
    }
