"""The shape of published tables, and of what is run for their rows; reads results/reported.

A paper has a file of its own; `systems.yaml` says for all of them what harness runs for a system.
"""

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from harness.choices import Pooling
from harness.errors import UserError, suggest
from harness.evaluation.catalogue import CARDS
from harness.files import shipped

SYSTEMS_FILE = "systems"
QUOTED = "quoted"
"""The system of a row that names none: its numbers are only quoted"""
THIS_PAPER = "this paper"
"""The source of a number where the paper says nothing of it"""

Value = int | float | bool | str | None
"""A value in a published table; None: the paper left it out"""
TableKind = Literal["scores", "hyperparameters", "examples"]
"""The content of a table: scores or costs, chosen hyperparameters, or retrieved sentences"""


_KINDS: dict[str, TableKind] = {
    "hyperparameter": "hyperparameters",
    "ranked sentences": "examples",
}
"""The metric of a table -> its kind; all others have numbers"""


def folder() -> Path:
    """The folder of the reported numbers; in a checkout it is `results/reported`."""
    return shipped("reported")


class ReportedPart(BaseModel):
    """A part of a paper's file; unknown keys are refused, and numbers that are none."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


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

    @property
    def alone(self) -> bool:
        """Whether it has no published values, and ours stand without them."""
        return not self.values

    def value(self, index: int) -> Value:
        """The value in a column; None: the paper left it out, or there is no paper."""
        return self.values[index] if self.values else None

    def text(self, index: int) -> str:
        """The value in a column as the paper prints it; "" where there is none."""
        return self.printed[index] if self.values else ""

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

    def sources(self, row: ReportedRow) -> list[str]:
        """The sources of the numbers of a row, that of the row itself first."""
        own = row.origin or THIS_PAPER
        return [own, *(row.origins or [])]

    def printed_decimals(self, index: int) -> int:
        """Digits after the point of the numbers in a column, as many as the longest has.

        Two where no row has a published value there.
        """
        texts = [row.text(index) for row in self.rows if row.value(index) is not None]
        return max((len(text.partition(".")[2]) for text in texts), default=2)

    @model_validator(mode="after")
    def _rows_are_as_long_as_the_header(self) -> Self:
        for row in self.rows:
            lists = {"values": row.values, "std": row.std, "origins": row.origins}
            for name, given in lists.items():
                alone = name == "values" and row.alone and self.kind == "scores"
                if given is not None and len(given) != len(self.columns) and not alone:
                    raise ValueError(
                        f'row "{row.label}" does not have {len(self.columns)} {name}, one for each '
                        f"column, but {len(given)}"
                    )
        if self.fractions is not None and len(self.fractions) != len(self.columns):
            raise ValueError(
                f"{len(self.fractions)} fractions do not fit {len(self.columns)} columns"
            )
        return self


class TableFigure(ReportedPart):
    """A figure of a table whose columns are the values of a hyperparameter."""

    about: str
    table: str
    axis: str
    """The hyperparameter, of which each column has one value"""


class Paper(BaseModel):
    """The tables of a paper; the figures, grids and claims in its file are not read."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    paper: str
    title: str
    tables: dict[str, ReportedTable]

    @property
    def runs(self) -> "Systems":
        """What is run for its rows."""
        return load_systems()

    @property
    def plugins(self) -> Mapping[str, str]:
        """The methods that it names by paths: name -> path."""
        return {}

    @property
    def table_figures(self) -> Mapping[str, TableFigure]:
        """Its figures of tables by name, such as `figure1`."""
        return {}

    def places(self, figure: TableFigure) -> list[float]:
        """The value of each column of the table of a figure, along its axis."""
        full_name = f"{self.paper}.{figure.table}"
        runs = [
            self.runs.column(full_name, str(heading))
            for heading in self.tables[figure.table].columns
        ]
        return [float(run.configuration[figure.axis]) for run in runs]

    @property
    def shown(self) -> dict[str, ReportedTable]:
        """The tables that `harness table --paper` prints with our numbers: those with a number."""
        names = {name: name.removeprefix("table") for name in self.tables}
        return {name: self.tables[name] for name, number in names.items() if number.isdecimal()}

    @property
    def numbers(self) -> dict[str, str]:
        """The number of each table -> its name, such as `table2`."""
        return {name.removeprefix("table"): name for name in self.shown}

    @property
    def fillable(self) -> list[int]:
        """The numbers of the tables of the paper itself that trials can fill."""
        return [
            int(number)
            for number, name in self.numbers.items()
            if self.tables[name].in_paper and self.tables[name].kind != "hyperparameters"
        ]

    @model_validator(mode="after")
    def _rows_say_what_is_run(self) -> Self:
        for name, table in self.shown.items():
            for row in table.rows:
                if table.kind == "hyperparameters" and not row.field:
                    raise ValueError(f'{name}: "{row.label}" needs a field')
                if table.kind == "scores" and not (row.setting and row.encoder and row.origin):
                    raise ValueError(
                        f'{name}: "{row.label}" needs a setting, an encoder and an origin'
                    )
                if table.kind == "examples" and not (row.setting and row.encoder):
                    raise ValueError(f'{name}: "{row.label}" needs a setting and an encoder')
        return self


class _Number(float):
    """A number of a file with its text, in which a zero at the end stays."""

    text: str


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """libyaml, where PyYAML was built with it, reads the same safe YAML ten times faster."""


def _number(loader: Any, node: yaml.ScalarNode) -> _Number:
    number = _Number(loader.construct_yaml_float(node))
    number.text = node.value
    return number


_Loader.add_constructor("tag:yaml.org,2002:float", _number)


def printed_text(value: Value) -> str:
    """A published value as text: `yes`, `0.0470`; "" for one that the paper left out."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return getattr(value, "text", "" if value is None else str(value))


_Model = TypeVar("_Model", bound=BaseModel)


@functools.cache
def load_yaml(path: Path, model: type[_Model]) -> _Model:
    """The content of a file, read once. Raises UserError for one that does not have this shape."""
    try:
        text = path.read_text(encoding="utf-8")
        return model.model_validate(content_of(text))
    except (OSError, yaml.YAMLError, ValidationError) as error:
        raise UserError(f"{path} cannot be used: {error}") from error


def content_of(text: str) -> Any:
    """The content of YAML, whose numbers keep their text. Raises yaml.YAMLError."""
    return yaml.load(text, Loader=_Loader)


Hyperparameters = dict[str, Any]
"""Hyperparameters by name; a value that differs between encoders is a mapping from the encoder"""


class ReportedRun(ReportedPart):
    """The trials that reproduce a number: their method, and the hyperparameters they must have."""

    method: str
    """Its name; in a paper of one's own, also the path of a plugin"""
    configuration: Hyperparameters = Field(default={})
    defaults: Hyperparameters = Field(default={})
    """Defaults of the method that only a variant changes; the trials need not set them"""
    variants: dict[str, Hyperparameters] = Field(default={})
    needs: dict[str, str] = Field(default={})
    """Variant ("" for none) -> what its user must bring, so that nothing here can run it alone"""
    encoder: str | None = None
    """The only encoder of the run, which stays where another one stands in for the paper's"""
    setting: str | None = None


class ColumnRun(ReportedPart):
    """The measure of a column, where its heading does not say it, and how its trials differ."""

    metric: str | None = None
    """A metric of a suite or a quantity of a trial, by name; None: what the heading names"""
    run: ReportedRun | None = None
    """A run in the place of that of the row"""
    setting: str | None = None
    encoder: str | None = None
    configuration: Hyperparameters = Field(default={})
    systems: dict[str, Hyperparameters] = Field(default={})
    """System -> what its rows must have besides"""


_NOTHING_SAID = ColumnRun()


class TableRuns(ReportedPart):
    """The facts of a table that its rows do not say; a column goes before the table."""

    metric: str | None = None
    systems: dict[str, Hyperparameters] = Field(default={})
    columns: dict[str, ColumnRun] = Field(default={})
    notes: list[str] = Field(default=[])
    """Lines under the table"""
    unlike: dict[str, dict[str, str]] = Field(default={})
    """System -> setting -> in what the paper's number is of another system than ours"""


class FigureRuns(ReportedPart):
    """The curves of a figure."""

    about: str
    rows: list[ReportedRow]
    axis: dict[str, list[int | float]] = Field(default={})
    """The hyperparameter along a curve -> its values; empty: each row is one model"""
    metric: str | None = None
    """The dev or test metric of a curve"""


class Released(ReportedPart):
    """A checkpoint that the authors of a system released, and that pooling alone evaluates."""

    system: str
    setting: str
    encoder: str
    """The pretrained model that it was trained from, as the rows of its system name it"""
    checkpoint: str
    """Its name as `harness eval` takes it: on the Hub, or a folder"""
    pooling: Pooling | None = None
    """None: that of a folder of sentence-transformers"""
    suites: list[str] = Field(default=[*CARDS])
    """The suites that its authors released it for"""

    @property
    def place(self) -> tuple[str, str, str]:
        """The system, setting and encoder of the rows beside which it stands."""
        return self.system, self.setting, self.encoder

    def is_of(self, row: ReportedRow) -> bool:
        """Whether it stands beside a row."""
        return (row.system, row.setting, row.encoder) == self.place

    @field_validator("suites")
    @classmethod
    def _suites_are_shipped(cls, names: list[str]) -> list[str]:
        for name in names:
            if name not in CARDS:
                raise ValueError(f'there is no suite "{name}"{suggest(name, CARDS)}')
        return names


class Systems(ReportedPart):
    """The run for each `system` of a row; None: the numbers are only quoted."""

    systems: dict[str, ReportedRun | None]
    table_runs: dict[str, TableRuns] = Field(default={}, alias="tables")
    """`<paper>.<table>` -> what is said of it"""
    figures: dict[str, FigureRuns] = Field(default={})
    """`<paper>.<figure>` -> its curves"""
    papers: dict[str, str] = Field(default={})
    """Paper -> what stands under all of its tables"""
    released: list[Released] = Field(default=[])
    """The checkpoints that a table shows beside the rows of their systems"""

    def column(self, table: str, column: str) -> ColumnRun:
        """The facts of a column of the table `<paper>.<table>`, with those of the table."""
        runs = self.table_runs.get(table)
        if runs is None:  # as of most cells; a store is compared with thousands of them
            return _NOTHING_SAID
        own = runs.columns.get(column, _NOTHING_SAID)
        systems = {
            name: {**runs.systems.get(name, {}), **own.systems.get(name, {})}
            for name in {*runs.systems, *own.systems}
        }
        return own.model_copy(update={"metric": own.metric or runs.metric, "systems": systems})


def load_systems() -> Systems:
    """The runs for the systems of the papers."""
    systems: Systems = load_yaml(folder() / f"{SYSTEMS_FILE}.yaml", Systems)
    return systems
