"""A paper: its tables, and the systems that are run for their rows.

For the papers that come with harness, results/reported/systems.yaml says what is run, and one's own
says it in its file.
"""

from collections.abc import Mapping
from typing import Any, Self

from pydantic import Field, field_validator, model_validator

from harness.choices import EncoderPooling
from harness.errors import suggest
from harness.evaluation.catalogue import CARDS
from harness.files import shipped
from harness.report.published import (
    QUOTED,
    SYSTEMS_FILE,
    ReportedPart,
    ReportedRow,
    ReportedTable,
    load_yaml,
)

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


NOTHING_SAID = ColumnRun()
"""The runs of a column of which nothing is said"""


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
    """A checkpoint that the authors of a system released, as `harness eval` measures it."""

    system: str
    setting: str
    encoder: str
    """The pretrained model that it was trained from, as the rows of its system name it"""
    checkpoint: str
    """Its name as `harness eval` takes it: on the Hub, or a folder"""
    pooling: EncoderPooling | None = None
    """Pooling of its vectors; None: that of a folder of sentence-transformers"""
    suites: list[str] = Field(default=[*CARDS])
    """The suites that its authors released it for"""

    def is_of(self, row: "ReportedRow | Released") -> bool:
        """Whether a row, or another checkpoint, has its system, setting and encoder."""
        return (row.system, row.setting, row.encoder) == (self.system, self.setting, self.encoder)

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
            return NOTHING_SAID
        own = runs.columns.get(column, NOTHING_SAID)
        systems = {
            name: {**runs.systems.get(name, {}), **own.systems.get(name, {})}
            for name in {*runs.systems, *own.systems}
        }
        return own.model_copy(update={"metric": own.metric or runs.metric, "systems": systems})


def load_systems() -> Systems:
    """The runs for the systems of the papers."""
    systems: Systems = load_yaml(shipped("reported") / f"{SYSTEMS_FILE}.yaml", Systems)
    return systems


class TableFigure(ReportedPart):
    """A figure of a table whose columns are the values of a hyperparameter."""

    about: str
    table: str
    axis: str
    """The hyperparameter, of which each column has one value"""


class Paper(ReportedPart):
    """The tables of a paper, and what its file says of the trials behind them."""

    paper: str
    title: str
    tables: dict[str, ReportedTable]
    systems: dict[str, ReportedRun | None] = Field(default={})
    """The run for a system of its rows, which goes before a system that harness has"""
    facts: dict[str, TableRuns] = Field(default={})
    """Table -> what its rows do not say, as `tables` of systems.yaml has it"""
    released: list[Released] = Field(default=[])
    """Released checkpoints of its systems, beside those that harness knows"""
    figures: dict[str, TableFigure] = Field(default={})
    """Its figures of tables by name, such as `figure1`"""

    @property
    def runs(self) -> Systems:
        """The systems that are run for its rows, its own before those that harness has."""
        shared = load_systems()
        tables = {f"{self.paper}.{name}": facts for name, facts in self.facts.items()}
        update = {
            "systems": {QUOTED: None, **shared.systems, **self.systems},
            "table_runs": {**shared.table_runs, **tables},
            "released": [
                *self.released,
                *(one for one in shared.released if not any(map(one.is_of, self.released))),
            ],
        }
        return shared.model_copy(update=update)

    @property
    def plugins(self) -> Mapping[str, str]:
        """The methods that it names by paths: name -> path."""
        from harness.plugin.registry import is_path, plain_name  # with numpy, for tables alone

        columns = (column for facts in self.facts.values() for column in facts.columns.values())
        runs = (*self.systems.values(), *(column.run for column in columns))
        return {plain_name(run.method): run.method for run in runs if run and is_path(run.method)}

    @property
    def numbers(self) -> dict[str, str]:
        """The number of each table that `harness table --paper` prints -> its name: `table2`."""
        numbers = {name.removeprefix("table"): name for name in self.tables}
        return {number: name for number, name in numbers.items() if number.isdecimal()}

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
        for name in self.numbers.values():
            table = self.tables[name]
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
