"""Names and shapes of corpora: which table, what of it is read, and what its items are.

`snli.jsonl?premise=sentence1&hypothesis=sentence2&label=gold_label&where.genre=fiction&limit=1000`
says everything, so it means the same in a space, on the command line, in a record, and on another
machine. A space may call it by a short name (`corpora:`).
"""

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote, unquote

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from harness.data.rows import FORMATS, ending, other_separator
from harness.errors import UserError, suggest

Shape = Literal[
    "sentences", "neighbours", "pairs", "triplets", "scored pairs", "labelled pairs"
]  # fmt: skip
"""Kind of the items of a corpus. Pairs are two texts with one meaning; neighbours follow one
another in running text"""
ROLES: Mapping[Shape, tuple[str, ...]] = {
    "sentences": ("sentence",),
    "pairs": ("first", "second"),
    "triplets": ("premise", "entailment", "contradiction"),
    "scored pairs": ("first", "second", "score"),
    "labelled pairs": ("premise", "hypothesis", "label"),
}
"""Shape -> the roles of its columns, the texts first"""
_LAYOUTS: Sequence[tuple[Shape, tuple[str, ...]]] = (
    ("sentences", ("sentence",)),
    ("sentences", ("text",)),
    ("triplets", ("premise", "entailment", "contradiction")),
    ("triplets", ("sent0", "sent1", "hard_neg")),
    ("triplets", ("anchor", "positive", "negative")),
    ("scored pairs", ("first", "second", "score")),
    ("scored pairs", ("sentence1", "sentence2", "score")),
    ("labelled pairs", ("premise", "hypothesis", "label")),
    ("pairs", ("first", "second")),
    ("pairs", ("sentence1", "sentence2")),
    ("pairs", ("anchor", "positive")),
)
"""The names that columns have in the data sets of the field, in the order of the roles"""


class Accepts:
    """Marks a field of a configuration that names a corpus, with the shapes that it may have.

    Example:
        pairs: Annotated[str, Accepts("scored pairs")] = Field("stsb-train")
    """

    def __init__(self, *shapes: Shape) -> None:
        self.shapes = shapes


def shape_of_roles(roles: Collection[str]) -> Shape:
    """The shape that has exactly these roles. Raises UserError when none has."""
    for shape, wanted in ROLES.items():
        if set(wanted) == set(roles):
            return shape
    valid = {role for wanted in ROLES.values() for role in wanted}
    unknown = sorted(set(roles) - valid)
    if unknown:
        raise UserError(f'unknown role "{unknown[0]}"{suggest(unknown[0], valid)}')
    raise UserError(
        f"no corpus has the roles {', '.join(sorted(roles))} alone; valid: "
        f"{'; '.join(', '.join(wanted) for wanted in ROLES.values())}"
    )


def recognised(columns: Sequence[str], where: str) -> tuple[Shape, dict[str, str]]:
    """The shape of a table with these columns, and role -> column.

    A score or a label beside a pair must not be overlooked, so pairs and sentences may have no
    further column. Raises UserError when the columns fit no shape, or more than one.
    """
    fitting = [
        (shape, layout)
        for shape, layout in _LAYOUTS
        if set(layout) <= set(columns) and (len(layout) == 3 or set(layout) == set(columns))
    ]
    if len(fitting) == 1:
        [(shape, layout)] = fitting
        return shape, dict(zip(ROLES[shape], layout, strict=True))
    if other := other_separator(Path(where), columns):
        raise UserError(f"{where} has one column, {columns[0]!r}{other}")
    problem = "do not say what the corpus is" if not fitting else "fit more than one shape"
    raise UserError(
        f"{where}: the columns {', '.join(columns)} {problem}; name them behind a question mark, "
        f"as in FILE?first=COLUMN&second=COLUMN&score=COLUMN (roles: "
        f"{'; '.join(', '.join(wanted) for wanted in ROLES.values())})"
    )


WHERE = "where."
"""Prefix of the column of a filter"""
_ROLES = "|".join(dict.fromkeys(role for roles in ROLES.values() for role in roles))
_OPTION = re.compile(rf"(?:{_ROLES}|limit|dev|split|{re.escape(WHERE)}[^=]+)=")
"""Beginning of an option behind the question mark, also behind that of a suite"""


class CorpusName(BaseModel):
    """A table and what of it is read; it is also what a space declares under `corpora:`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    data: str = Field(min_length=1)
    """A file, or a data set of the Hub as ORGANISATION/NAME[@REVISION][/CONFIG][:SPLIT]"""
    columns: dict[str, str] = Field(default_factory=dict)
    """Role -> column; empty: the names of the columns say it"""
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
    """Options behind the question mark as (key, value).

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
        key = ".".join(map(str, first["loc"]))
        key = "" if message.startswith(key) else f"{key}: "
        raise UserError(f'corpus "{name}": {key}{message}') from None


def check_column(column: str, columns: list[str], where: str) -> None:
    """Raises UserError when a table has no such column."""
    if column not in columns:
        other = other_separator(Path(where), columns) or suggest(column, columns)
        raise UserError(f'{where} has no column "{column}"{other}')
