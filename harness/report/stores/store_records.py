"""The scores of groups as data: the table that CSV, JSON and Parquet hold."""

from collections.abc import Collection, Iterable

import pyarrow as pa

from harness.report.measured.groups import Cell, Group
from harness.report.measured.measured_trials import IDENTITY_COLUMNS
from harness.report.sheets.sheet import CELL_COLUMNS, cell_record, key_list

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


def records_of(groups: Iterable[Group], best: Collection[int] | None = None) -> pa.Table:
    """The scores of groups, each of one suite, as a table of STORE_SCHEMA. best: as `best_of`."""
    rows = [
        {
            **dict(zip(IDENTITY_COLUMNS, group.identity, strict=True)),
            "label_fraction": group.label_fraction,
            "suite": group.suite,
            "keys": key_list(group.keys),
            "split": split,
            "metric": metric,
            **cell_record(cell, best),
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
