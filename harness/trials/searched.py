"""What tells trials apart: the hyperparameters in which the trials of a search differ."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

FAMILY_COLUMNS = ("method", "setting", "encoder", "search")
"""Trials that agree in these columns are told apart by their configurations"""
Family = tuple[str | None, ...]
"""The values of FAMILY_COLUMNS, in the same order"""


def searched_names(trials: pa.Table) -> dict[Family, list[str]]:
    """For each family of trials the hyperparameters in which they differ, sorted.

    `trials`: FAMILY_COLUMNS and `configuration`. The label subset is none of them, because it
    numbers a repetition as a seed does.
    """
    first: dict[Family, dict[str, Any]] = {}
    differing: dict[Family, set[str]] = defaultdict(set)
    columns = [*FAMILY_COLUMNS, "configuration"]
    for row in trials.select(columns).group_by(columns).aggregate([]).to_pylist():
        family = family_of(row)
        values = json.loads(row["configuration"] or "{}")
        other = first.setdefault(family, values)
        differing[family] |= {
            name
            for name in values.keys() | other.keys()
            if name != "subset" and values.get(name) != other.get(name)
        }
    return {family: sorted(names) for family, names in differing.items()}


def family_of(row: Mapping[str, Any]) -> Family:
    """The family of a trial."""
    return tuple(row[name] for name in FAMILY_COLUMNS)


def searched_values(row: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The values that these hyperparameters have in a trial."""
    values = json.loads(row["configuration"] or "{}")
    return {name: values[name] for name in names if name in values}
