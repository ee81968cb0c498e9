"""What tells trials apart: the hyperparameters in which the trials of a search differ."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import compress
from operator import ne
from typing import Any

import pyarrow as pa
from pydantic_core import from_json

FAMILY_COLUMNS = ("method", "setting", "encoder", "search")
"""Trials that agree in these columns are told apart by their configurations"""
Family = tuple[str | None, ...]
"""The values of FAMILY_COLUMNS, in the same order"""


def searched_names(trials: pa.Table) -> dict[Family, list[str]]:
    """For each family of trials the hyperparameters in which they differ, sorted.

    `trials`: FAMILY_COLUMNS and `configuration`. The label subset is none of them, because it
    numbers a repetition as a seed does.
    """
    # `Table.group_by` would import pyarrow's data sets and pandas, which takes half a second.
    lists: dict[Family, list[str | None]] = defaultdict(list)
    families = zip(*(trials[name].to_pylist() for name in FAMILY_COLUMNS), strict=True)
    for family, text in zip(families, trials["configuration"].to_pylist(), strict=True):
        lists[family].append(text)
    return {family: _varied(found) for family, found in lists.items()}


def _varied(configurations: list[str | None]) -> list[str]:
    """The hyperparameters in which configurations differ, without the label subset."""
    first, *others = dict.fromkeys(configurations)
    names: set[str] = set()
    values = from_json(first or "{}", cache_strings="keys")
    for other in others:
        names.update(_differing(from_json(other or "{}", cache_strings="keys"), values))
    return sorted(names - {"subset"})


def _differing(one: dict[str, Any], other: dict[str, Any]) -> Iterable[str]:
    """The names whose values differ."""
    if list(one) == list(other):  # nearly always; a store may have a hundred thousand trials
        return compress(one, map(ne, one.values(), other.values()))
    return [name for name in one.keys() | other.keys() if one.get(name) != other.get(name)]


def family_of(row: Mapping[str, Any]) -> Family:
    """The family of a trial."""
    return tuple(row[name] for name in FAMILY_COLUMNS)


def searched_values(row: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The values that these hyperparameters have in a trial."""
    values = from_json(row["configuration"] or "{}")
    return {name: values[name] for name in names if name in values}
