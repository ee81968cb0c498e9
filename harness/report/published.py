"""Published tables as the papers print them; reads results/reported.

A paper has a file of its own; `systems.yaml` says for all of them what harness runs for a system.
"""

import functools
from collections import Counter
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from harness.errors import UserError

SYSTEMS_FILE = "systems"
QUOTED = "quoted"
"""The system of a row that names none: its numbers are only quoted"""
THIS_PAPER = "this paper"
"""The source of a number where the paper says nothing of it"""

Value = int | float | bool | str | None
"""A value in a published table; None: the paper left it out"""
TableKind = Literal["scores", "hyperparameters", "examples"]
"""The content of a table: scores or costs, chosen hyperparameters, or retrieved sentences"""


_KINDS: dict[str, TableKind] = {"hyperparameter": "hyperparameters", "ranked sentences": "examples"}
"""The metric of a table -> its kind; all others have numbers"""


class ReportedPart(BaseModel):
    """A part of a paper's file; unknown keys are refused, and numbers that are none."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)


class ReportedRow(ReportedPart):
    """A row as the paper prints it.

    `values` and `std` follow the columns of the table, and have its units. A row without values is
    ours alone: nobody has published it.
    """

    label: str
    system: str = QUOTED
    setting: str | None = None
    encoder: str | list[str] | None = None
    variant: str | None = None
    origin: str | None = None  # "this paper", "run by this paper", "quoted:<who>", ...
    origins: list[str] | None = None  # one for each value, where the values have different ones
    values: list[Value] = Field(default=[])
    printed: list[str] = Field(default=[])  # the values as the paper prints them, with every zero
    std: list[float | None] | None = None
    check_avg: float | None = None  # the mean of the columns, where the printed Avg. differs
    picked: int | None = None
    hits_of_194: list[int] | None = None
    gold_rank: int | None = None
    field: str | None = None  # in a table of hyperparameters: the field of the method's Config

    def value(self, index: int) -> Value:
        """The value in a column; None: the paper left it out, or there is no paper."""
        return self.values[index] if self.values else None

    @model_validator(mode="before")
    @classmethod
    def _keep_the_text_of_numbers(cls, row: Any) -> Any:
        if not isinstance(row, dict):
            return row
        values = row.get("values") or []
        if not isinstance(values, list):
            return row
        return {**row, "values": values, "printed": [printed_text(value) for value in values]}


class RowGroup(ReportedPart):
    """The rows under one heading."""

    name: str
    rows: list[ReportedRow]


class ReportedTable(ReportedPart):
    """A table as the paper prints it."""

    about: str
    metric: str
    columns: list[str | int | float]
    groups: list[RowGroup]
    runs: dict[str, int | str] = {}  # system or column -> number of runs behind each number
    fractions: list[float] | None = None  # where the columns are shares of the labels
    source: str | None = None
    note: str | None = None
    query: str | None = None
    gold: str | None = None
    in_paper: bool = True
    """Whether the paper itself has it, and not another version of the paper or another text"""

    @property
    def kind(self) -> TableKind:
        """The content of the table."""
        return _KINDS.get(self.metric, "scores")

    @property
    def rows(self) -> list[ReportedRow]:
        """The rows of all headings."""
        return [row for group in self.groups for row in group.rows]

    @cached_property
    def citations(self) -> dict[str, str]:
        """The sources of its numbers -> their marks, such as `[2]`."""
        sources = (
            name for row in self.rows for name in (row.origin or THIS_PAPER, *(row.origins or []))
        )
        return {name: f"[{number}]" for number, name in enumerate(dict.fromkeys(sources), 1)}

    @model_validator(mode="after")
    def _columns_are_told_apart_and_rows_as_long(self) -> Self:
        for name, number in Counter(map(str, self.columns)).items():
            if number > 1:
                raise ValueError(f'{number} columns have the heading "{name}"')
        for row in self.rows:
            lists = {"values": row.values, "std": row.std, "origins": row.origins}
            for name, numbers in lists.items():
                alone = name == "values" and not row.values and self.kind == "scores"
                if numbers is not None and len(numbers) != len(self.columns) and not alone:
                    raise ValueError(
                        f'row "{row.label}" does not have {len(self.columns)} {name}, one for each '
                        f"column, but {len(numbers)}"
                    )
        if self.fractions is not None and len(self.fractions) != len(self.columns):
            raise ValueError(
                f"{len(self.fractions)} fractions do not fit {len(self.columns)} columns"
            )
        return self


class _Number(float):
    """A number of a file with its text, in which a zero at the end stays."""

    text: str


class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Safe YAML whose numbers keep their text; libyaml, where it is, reads it ten times faster."""


def _number(loader: Any, node: yaml.ScalarNode) -> _Number:
    number = _Number(loader.construct_yaml_float(node))
    number.text = node.value
    return number


Loader.add_constructor("tag:yaml.org,2002:float", _number)


def printed_text(value: Value) -> str:
    """A published value as text: `yes`, `0.0470`; "" for one that the paper left out."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return getattr(value, "text", "" if value is None else str(value))


_Model = TypeVar("_Model", bound=BaseModel)


@functools.cache
def load_yaml(path: Path, model: type[_Model], only: tuple[str, ...] = ()) -> _Model:
    """The content of a file, read once. Raises UserError for one that does not have this shape.

    only: the keys that are read; empty: all, so that an unknown one is refused.
    """
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=Loader)
        return model.model_validate({name: content.get(name) for name in only} or content)
    except (OSError, yaml.YAMLError, ValidationError) as error:
        raise UserError(f"{path} cannot be used: {error}") from error
