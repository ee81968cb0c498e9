"""The name of a corpus that is a table: where it lies, and what of it is read.

`snli.jsonl?premise=sentence1&hypothesis=sentence2&label=gold_label&where.genre=fiction&limit=1000`
says everything, so it means the same in a space, on the command line, in a record, and on another
machine. A space may call it by a short name (`corpora:`).
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from harness.data.rows import FORMATS, ending
from harness.data.shapes import ROLES, shape_of_roles
from harness.errors import UserError, suggest

WHERE = "where."
"""What stands before the column of a filter"""
_ROLES = "|".join(dict.fromkeys(role for roles in ROLES.values() for role in roles))
_OPTION = re.compile(rf"(?:{_ROLES}|limit|dev|split|{re.escape(WHERE)}[^=]+)=")
"""How what may stand behind the question mark begins, also behind that of a suite"""


class CorpusName(BaseModel):
    """A table and what of it is read; it is also what a space declares under `corpora:`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    data: str = Field(min_length=1)
    """A file, or a data set of the Hub as ORGANISATION/NAME[@REVISION][/CONFIG][:SPLIT]"""
    columns: dict[str, str] = Field(default_factory=dict)
    """Role -> column; empty: the names of the columns say it (harness.data.shapes)"""
    where: dict[str, list[str]] = Field(default_factory=dict)
    """Column -> the values that it may have; other rows are left out"""
    limit: int | None = Field(None, ge=1)
    """At most so many items, the first ones that `where` leaves"""

    @field_validator("data")
    @classmethod
    def _plain(cls, data: str) -> str:
        if split_name(data) != (data, ""):
            raise ValueError("data names a file or a data set, without what is read of it")
        return data

    @field_validator("columns")
    @classmethod
    def _one_shape(cls, columns: dict[str, str]) -> dict[str, str]:
        try:
            if columns:
                shape_of_roles(columns)
        except UserError as error:
            raise ValueError(str(error)) from None
        return dict(sorted(columns.items()))

    @field_validator("where", mode="before")
    @classmethod
    def _listed(cls, where: Any) -> Any:
        """A filter may be one value or several, and a value may be a number."""
        if not isinstance(where, Mapping):
            return where
        listed = {
            key: value if isinstance(value, list) else [value] for key, value in where.items()
        }
        return {key: [str(value) for value in listed[key]] for key in sorted(listed, key=str)}

    def __str__(self) -> str:
        """The name as text, from which `parsed` makes it again."""
        pairs = [*self.columns.items()]
        pairs += [(f"{WHERE}{key}", each) for key, values in self.where.items() for each in values]
        pairs += [("limit", str(self.limit))] if self.limit else []
        query = "&".join(f"{quote(key)}={quote(value)}" for key, value in pairs)
        return f"{self.data}?{query}" if query else self.data


def split_name(name: str) -> tuple[str, str]:
    """A name as what stands before the question mark, and what stands behind it.

    A question mark may also be a part of a path: it separates only behind an ending that is read,
    or in front of an option.
    """
    for place in (mark.start() for mark in re.finditer(r"\?", name)):
        data, query = name[:place], name[place + 1 :]
        path = Path(data)
        if ending(path) in FORMATS or path.suffix == ".py" or _OPTION.match(query):
            return data, query
    return name, ""


def options_of(query: str) -> list[tuple[str, str]]:
    """What stands behind the question mark as (key, value).

    A value is written as in a web address, but a plus sign is no space. Raises ValueError for a
    part that has no equals sign.
    """
    pairs = [part.partition("=") for part in query.split("&")] if query else []
    if not all(equals for _, equals, _ in pairs):
        raise ValueError("no equals sign")
    return [(unquote(key), unquote(value)) for key, _, value in pairs]


def parsed(name: str) -> CorpusName:
    """Read the name of a table. Raises UserError when what stands behind `?` is malformed."""
    data, query = split_name(name)
    columns, where, rest = dict[str, str](), dict[str, list[str]](), dict[str, str]()
    try:
        options = options_of(query)
    except ValueError:
        raise UserError(
            f'corpus "{name}": behind the question mark stand ROLE=COLUMN, where.COLUMN=VALUE and '
            f"limit=NUMBER, joined by &"
        ) from None
    for key, value in options:
        if key.startswith(WHERE):
            where.setdefault(key.removeprefix(WHERE), []).append(value)
        elif key in rest or key in columns:
            raise UserError(f'corpus "{name}": {key} is given twice')
        else:
            (rest if key == "limit" else columns)[key] = value
    try:
        return CorpusName.model_validate({"data": data, "columns": columns, "where": where, **rest})
    except ValidationError as error:
        first = error.errors()[0]
        message = first["msg"].removeprefix("Value error, ")
        place = ".".join(map(str, first["loc"]))
        place = "" if message.startswith(place) else f"{place}: "
        raise UserError(f'corpus "{name}": {place}{message}') from None


def check_column(column: str, columns: list[str], where: str) -> None:
    """Raises UserError when a table has no such column."""
    if column not in columns:
        raise UserError(f'{where} has no column "{column}"{suggest(column, columns)}')
