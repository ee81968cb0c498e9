"""A paper: its tables, the figures of them, and what is run for their rows."""

from collections.abc import Mapping
from typing import Self

from pydantic import BaseModel, ConfigDict, model_validator

from harness.report.published import ReportedPart, ReportedTable
from harness.report.systems import Systems, load_systems


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
    def runs(self) -> Systems:
        """The systems that are run for its rows."""
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
