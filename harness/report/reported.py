"""Reads the published tables of results/reported, and what harness runs for their rows."""

import functools
from pathlib import Path
from typing import Any, Self, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from harness.errors import UserError, suggest
from harness.evaluation.catalogue import CARDS, Metric, headed, metric_under
from harness.files import shipped

SYSTEMS_FILE = "systems"

Value = int | float | bool | str | None
"""A value in a published table; None: the paper left it out"""


def folder() -> Path:
    """The folder of the reported numbers; in a checkout it is `results/reported`."""
    return shipped("reported")


def papers() -> list[str]:
    """The names of the papers with reported numbers, sorted."""
    return sorted(path.stem for path in folder().glob("*.yaml") if path.stem != SYSTEMS_FILE)


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ReportedRow(_Data):
    """A row as the paper prints it.

    `values` and `std` follow the columns of the table, and have its units.
    """

    label: str
    system: str
    setting: str | None = None
    encoder: str | list[str] | None = None
    variant: str | None = None
    origin: str | None = None  # "this paper", "run by this paper", "quoted:<who>", ...
    origins: list[str] | None = None  # one for each value, where the values have different ones
    values: list[Value]
    std: list[float | None] | None = None
    check_avg: float | None = None  # the mean of the columns, where the printed Avg. differs
    picked: int | None = None
    hits_of_194: list[int] | None = None
    gold_rank: int | None = None


class RowGroup(_Data):
    """The rows under one heading."""

    name: str
    rows: list[ReportedRow]


class ReportedTable(_Data):
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

    @functools.cached_property
    def suite(self) -> str:
        """The suite that measures most of the columns."""
        return headed(self.columns)

    @property
    def of_tests(self) -> bool:
        """Whether the columns are scores on test."""
        return self.metric.endswith("on test")

    @functools.cached_property
    def metrics(self) -> list[Metric]:
        """The metric of each column; for shares of the labels, it is the average of STS."""
        return [metric_under(str(column), self.columns) for column in self.columns]

    def decimals(self, index: int) -> int:
        """Digits after the point in a column.

        They are two, or as many as the paper prints for metrics that are not percentages.
        """
        if CARDS[self.metrics[index].suite].decimals == 2:
            return 2
        values = [str(row.values[index]) for group in self.groups for row in group.rows]
        return max(len(value.partition(".")[2]) for value in values)

    @model_validator(mode="after")
    def _rows_are_as_long_as_the_header(self) -> Self:
        for row in (row for group in self.groups for row in group.rows):
            if len(row.values) != len(self.columns) or (
                row.std and len(row.std) != len(row.values)
            ):
                raise ValueError(f'row "{row.label}" does not have {len(self.columns)} values')
        if self.fractions is not None and len(self.fractions) != len(self.columns):
            raise ValueError(
                f"{len(self.fractions)} fractions do not fit {len(self.columns)} columns"
            )
        return self


class Paper(BaseModel):
    """The tables of a paper; the figures, grids and claims in its file are not read."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    paper: str
    title: str
    tables: dict[str, ReportedTable]

    @property
    def compared(self) -> dict[str, ReportedTable]:
        """The tables that `harness table --paper` prints with our numbers.

        They are Table 1, the tables of test scores, those over shares of the labels, and those of a
        suite other than STS.
        """
        return {
            name: table
            for name, table in self.tables.items()
            if name == "table1" or table.of_tests or table.fractions or table.suite != "sts"
        }

    @property
    def numbers(self) -> dict[str, str]:
        """The number of each compared table -> its name, such as `table2`."""
        return {name.removeprefix("table"): name for name in self.compared}

    @model_validator(mode="after")
    def _compared_tables_can_be_run(self) -> Self:
        for name, table in self.compared.items():
            for row in (row for group in table.groups for row in group.rows):
                numeric = all(value is None or type(value) in (int, float) for value in row.values)
                if not (numeric and row.setting and row.origin and isinstance(row.encoder, str)):
                    raise ValueError(
                        f'{name}: "{row.label}" needs numbers, a setting, one encoder and an origin'
                    )
        return self


class ReportedRun(_Data):
    """The trials that reproduce a number: their method, and the hyperparameters they must have."""

    method: str
    configuration: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    """Defaults of the method that only a variant changes; the trials need not set them"""
    variants: dict[str, dict[str, Any]] = {}
    encoder: str | None = None
    setting: str | None = None


class ColumnRuns(_Data):
    """A table whose columns are different runs, with the scores of one dev metric."""

    metric: str
    columns: dict[str, ReportedRun]


class Systems(_Data):
    """What harness runs for each `system` of a row; None: the numbers are only quoted."""

    systems: dict[str, ReportedRun | None]
    column_runs: dict[str, ColumnRuns] = Field(default={}, alias="tables")
    """`<paper>.<table>` -> its runs"""


_Model = TypeVar("_Model", bound=BaseModel)


def load_paper(name: str) -> Paper:
    """The numbers of the paper `name`. Raises UserError when there are none."""
    if name not in papers():
        raise UserError(
            f'there are no reported numbers of a paper "{name}"{suggest(name, papers())}'
        )
    return _paper(folder() / f"{name}.yaml")


def load_systems() -> Systems:
    """What harness runs for the systems of the papers."""
    return _systems(folder() / f"{SYSTEMS_FILE}.yaml")


@functools.cache
def _paper(path: Path) -> Paper:
    return _load(path, Paper)


@functools.cache
def _systems(path: Path) -> Systems:
    return _load(path, Systems)


def _load(path: Path, model: type[_Model]) -> _Model:
    # libyaml reads the same safe subset of YAML ten times faster, where PyYAML was built with it.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return model.model_validate(yaml.load(path.read_text(encoding="utf-8"), Loader=loader))
    except (OSError, yaml.YAMLError, ValidationError) as error:
        raise UserError(f"{path} cannot be used: {error}") from error
