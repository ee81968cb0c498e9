"""Cells as data: the tables that CSV, JSON and Parquet hold."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import pyarrow as pa

from harness.report.cells import Cell
from harness.report.groups import Group, Score
from harness.report.matching import Commands, obstacle
from harness.report.measured_trials import IDENTITY_COLUMNS
from harness.report.paper_cells import PaperTable
from harness.report.tables import Row

TRIALS = pa.list_(
    pa.struct(
        [
            ("key", pa.string()),
            ("seed", pa.int64()),
            ("subset", pa.int64()),
            ("value", pa.float64()),
        ]
    )
)
SCORE_COLUMNS = (
    ("mean", pa.float64()),  # in the units of its suite: Spearman x100, accuracy x100, percent, ...
    ("std", pa.float64()),  # sample standard deviation over the trials; null for one
    ("n", pa.int64()),
    # The uncertainty of the score of one model, by bootstrap over the items; null for n > 1.
    ("standard_error", pa.float64()),
    ("low", pa.float64()),
    ("high", pa.float64()),
    # Bold: the best of its column, or not significantly worse; null: nothing was ranked.
    ("best", pa.bool_()),
    ("trials", TRIALS),  # the score of each trial
)
"""The columns of a score in CSV, which has no `trials`, in JSON and in Parquet"""
STORE_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in IDENTITY_COLUMNS[:-1]),
        ("protocol", pa.int32()),
        ("label_fraction", pa.float64()),  # null where nothing has labels
        ("suite", pa.string()),
        ("suite_data", pa.string()),  # digest of a user's data; null for a suite of harness
        ("split", pa.string()),  # dev_before | dev | test
        ("metric", pa.string()),
        *SCORE_COLUMNS,
        ("keys", pa.string()),  # the first characters of the keys of the trials
    ]
)
PAPER_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("paper", "table", "group", "label", "system")),
        *((name, pa.string()) for name in ("variant", "method", "setting", "encoder")),
        *((name, pa.string()) for name in ("column", "origin")),
        ("value", pa.string()),  # published, as the paper prints it
        ("ours", pa.string()),  # where the value is no number: our default, our sentence
        ("published", pa.float64()),  # in the units of the table, like our mean
        ("published_std", pa.float64()),
        ("suite", pa.string()),  # that has measured our trials
        ("protocol", pa.int32()),  # of our trials
        *SCORE_COLUMNS,
        ("delta", pa.float64()),  # our mean - published
        ("candidates", pa.int64()),  # number of groups among which one was chosen
        ("keys", pa.string()),  # the first characters of the keys of the trials
        ("command", pa.string()),
        ("obstacle", pa.string()),  # why the command cannot be run yet
    ]
)


def store_records(groups: Iterable[Group], best: Collection[int] | None = None) -> pa.Table:
    """The scores of groups, each of one suite, as a table of STORE_SCHEMA.

    best: as `best_of`; None: nothing was ranked.
    """
    rows = [
        {
            **dict(zip(IDENTITY_COLUMNS, group.identity, strict=True)),
            "label_fraction": group.label_fraction,
            "suite": group.suite,
            "suite_data": group.data or None,
            "keys": _key_list(group.keys),
            "split": split,
            "metric": metric,
            **_score_record(score, None if best is None else id(score) in best),
        }
        for group in groups
        for split, metric, score in _scores_of(group)
    ]
    return pa.Table.from_pylist(rows, schema=STORE_SCHEMA)


def _scores_of(group: Group) -> list[tuple[str, str, Score]]:
    """(split, metric, score) of what the suite measured."""
    measured = {name for trial in group.trials for name in group.scores(trial).dev}
    before = group.dev_before if group.own else None
    return [
        *([("dev_before", group.selects, before)] if before else []),
        *(("dev", name, score) for name, score in sorted(group.dev.items()) if name in measured),
        *(("test", name, score) for name, score in sorted(group.test.items())),
    ]


def best_of(rows: Iterable[Row]) -> set[int]:
    """The scores that are the best of their columns, by the `id` of each."""
    return {id(cell.ours) for row in rows for cell in row.cells if cell.best}


def _score_record(score: Score | None, best: bool | None) -> dict[str, Any]:
    """The values of SCORE_COLUMNS. best: None where nothing was ranked."""
    spread = score.uncertainty if score else None
    return {
        "mean": score.mean if score else None,
        "std": score.std if score else None,
        "n": score.n if score else 0,
        "standard_error": spread.standard_error if spread else None,
        "low": spread.low if spread else None,
        "high": spread.high if spread else None,
        "best": best,
        "trials": [
            {"key": trial.key, "subset": trial.draw[0], "seed": trial.draw[1], "value": value}
            for trial, value in zip(score.trials, score.values, strict=True)
        ]
        if score
        else [],
    }


def paper_records(
    compared: PaperTable,
    cells: Sequence[Cell],
    commands: Commands,
    ours: Sequence[str] = (),
    *,
    ranked: bool = False,
) -> pa.Table:
    """A row of PAPER_SCHEMA for each published value, and for each score of a released checkpoint.

    The score may be one that its evaluation would give. cells: those of the table, `ranked` or not.
    ours: ours for each of them, where it is no number.
    """
    rows = [
        {
            **_published_record(cell, compared, ranked=ranked),
            "command": commands.cell(cell.wanted, compared.paper.paper, compared.number)
            if cell.wanted
            else None,
            "obstacle": obstacle(cell.wanted, commands.methods) if cell.wanted else "quoted only",
            "ours": text or None,
        }
        for cell, text in zip(cells, ours or [""] * len(cells), strict=True)
    ]
    rows += [
        {
            **_published_record(cell, compared, ranked=False),
            "setting": cell.published.row.setting,
            "command": commands.evaluation(cell.wanted, cell.metric.suite),
        }
        for row in compared.released
        for cell in row.cells
        if cell.metric and cell.published and cell.wanted
    ]
    return pa.Table.from_pylist(rows, schema=PAPER_SCHEMA)


def _published_record(cell: Cell, compared: PaperTable, *, ranked: bool) -> dict[str, Any]:
    """The values of PAPER_SCHEMA for a published value, without its commands."""
    published, wanted = cell.published, cell.wanted
    assert published is not None
    row = published.row
    return {
        "paper": compared.paper.paper,
        "table": f"table{compared.number}",
        "group": published.heading,
        "label": row.label,
        "system": row.system,
        "variant": row.variant,
        "method": wanted.method if wanted else None,
        "setting": wanted.setting if wanted else row.setting,
        "encoder": wanted.encoder if wanted else None,
        "column": published.column,
        "origin": published.source,
        "value": published.printed or None,
        "published": cell.number,
        "published_std": published.std,
        "suite": cell.metric.suite if cell.ours and cell.metric else None,
        "protocol": cell.group.provenance["protocol"] if cell.group else None,
        **_score_record(cell.ours, cell.best if ranked else None),
        "delta": cell.difference,
        "candidates": cell.candidates,
        "keys": _key_list(cell.ours.keys) if cell.ours else "",
    }


def _key_list(keys: Iterable[str]) -> str:
    """The first characters of the keys, which are enough for `harness show`."""
    return " ".join(key[:12] for key in keys)
