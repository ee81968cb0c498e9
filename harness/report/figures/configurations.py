"""The configurations of a search with their mean dev scores."""

import json
import statistics
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from harness.report.figures.sweep_trials import SweepSearch, SweepTrial

CONFIGURATIONS = pa.schema(
    [
        ("values", pa.string()),  # JSON: hyperparameter -> value
        ("n", pa.int64()),  # search trials with a dev score: seeds x label subsets
        ("dev", pa.float64()),  # their mean
        ("std", pa.float64()),  # sample standard deviation; null for one trial
        ("seconds", pa.float64()),  # mean training seconds
        ("pruned", pa.bool_()),  # whether the search has ended one of them early
    ]
)


def configurations(search: SweepSearch) -> pa.Table:
    """One row for each configuration (CONFIGURATIONS), the best dev score first."""
    found: dict[str, list[SweepTrial]] = {}
    for trial in search.searched:
        if trial.dev is not None:
            found.setdefault(json.dumps(dict(trial.values), sort_keys=True), []).append(trial)
    rows = [_row(values, trials) for values, trials in found.items()]
    rows.sort(key=lambda row: (-row["dev"], row["values"]))
    return pa.Table.from_pylist(rows, schema=CONFIGURATIONS)


def _row(values: str, trials: list[SweepTrial]) -> dict[str, Any]:
    scores = [trial.dev for trial in trials if trial.dev is not None]
    seconds = [trial.record.training_seconds for trial in trials]
    known = [each for each in seconds if each is not None]
    return {
        "values": values,
        "n": len(scores),
        "dev": statistics.fmean(scores),
        "std": statistics.stdev(scores) if len(scores) > 1 else None,
        "seconds": statistics.fmean(known) if known else None,
        "pruned": any(trial.record.status == "pruned" for trial in trials),
    }


def values_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """The hyperparameters of a row of CONFIGURATIONS."""
    found: dict[str, Any] = json.loads(row["values"])
    return found


def are_numbers(values: list[Any]) -> bool:
    """Whether all are numbers, so that an axis has an order and distances."""
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
