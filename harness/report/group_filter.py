"""Filters groups by an SQL expression, such as `encoder = 'bert-base-uncased' and n >= 3`.

The expression is a user's, so it meets one table in memory and nothing else: duckdb may neither
read nor write files, nor load extensions, nor see the variables of the program.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from harness.errors import UserError, extra, suggest
from harness.report.groups import Group
from harness.report.measured_trials import IDENTITY_COLUMNS

_PLACE = "place of the group"
_ALONE = {
    "enable_external_access": "false",
    "python_enable_replacements": "false",
    "threads": "1",
    "lock_configuration": "true",
}
"""The settings of duckdb; none of them can be changed afterwards"""
_NAMED = tuple(name for name in IDENTITY_COLUMNS if name != "configuration")


def traits(group: Group) -> dict[str, Any]:
    """What a group can be chosen by: what it is, the number of its trials, its hyperparameters."""
    identity = dict(zip(IDENTITY_COLUMNS, group.identity, strict=True))
    own = {name: identity[name] for name in _NAMED} | {"n": len(group.trials)}
    return {**group.configuration, **own}


def filtered(groups: Sequence[Group], where: str | None) -> list[Group]:
    """The groups for which an expression holds; all of them where it is None.

    Scores are no columns, because test scores select nothing. Raises UserError for an expression
    that is not SQL, or that names what no group has, and when duckdb is not installed.
    """
    if where is None:
        return list(groups)
    with extra("duckdb", "--where"):
        import duckdb
    if not groups:
        return []
    rows = _table([traits(group) for group in groups])
    with duckdb.connect(":memory:", config=_ALONE) as connection:
        try:
            # As an argument of `filter` it can only be an expression, never a statement.
            found = (
                connection.from_arrow(rows).filter(where).select(duckdb.ColumnExpression(_PLACE))
            )
            places = {place for (place,) in found.fetchall()}
        except duckdb.Error as error:
            raise UserError(f"--where {where}: {_reason(str(error), rows.column_names)}") from None
    return [group for place, group in enumerate(groups) if place in places]


def _table(rows: Sequence[dict[str, Any]]) -> pa.Table:
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: _column([row.get(name) for row in rows]) for name in names}
    return pa.table({_PLACE: pa.array(range(len(rows))), **columns})


def _column(values: list[Any]) -> pa.Array:
    """The values with their own type; as text where they have several types."""
    plain = [json.dumps(value) if isinstance(value, list | dict) else value for value in values]
    try:
        return pa.array(plain)
    except pa.ArrowException:
        texts = [value if isinstance(value, str) else json.dumps(value) for value in plain]
        return pa.array([None if plain[at] is None else text for at, text in enumerate(texts)])


def _reason(message: str, names: Sequence[str]) -> str:
    """One sentence about an expression that duckdb refuses."""
    unknown = re.search(r'Referenced (?:column|table) "([^"]*)" not found', message)
    if unknown:
        known = [name for name in names if name != _PLACE]
        return f'there is no column "{unknown[1]}"{suggest(unknown[1], known)}'
    if "disabled by configuration" in message or "Permission Error" in message:
        return "an expression may use the columns of the table, and nothing else"
    first = message.partition("\n")[0].partition(": ")[2].strip()
    return f"this is not an SQL expression that can be used ({first or message.strip()})"
