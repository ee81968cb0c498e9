"""The papers with their tables: those that come with harness, and one's own by folder or file."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Self

from pydantic import BaseModel, ConfigDict, model_validator

from harness.errors import UserError, suggest
from harness.inputs import is_folder, kind_of
from harness.report.published import SYSTEMS_FILE, ReportedPart, ReportedTable, folder, load_yaml
from harness.report.systems import Systems, load_systems

OWN_FILE = "paper.yaml"
"""The file of a paper of one's own, in its folder"""


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


def papers() -> list[str]:
    """The names of the papers with reported numbers, sorted."""
    return sorted(path.stem for path in folder().glob("*.yaml") if path.stem != SYSTEMS_FILE)


def load_paper(name: str) -> Paper:
    """The numbers of a paper.

    name: that of one which comes with harness, or else the folder of one's own, or its file.
    Raises UserError where there is none, and for whatever is wrong in one's own.
    """
    if name in papers():
        paper: Paper = load_yaml(folder() / f"{name}.yaml", Paper)
        return paper
    file = _own_file(name)
    from harness.report.own_paper import own_paper  # a wrong name is answered before

    return own_paper(name, file)


def paper_label(name: str) -> str:
    """The name of a paper as a part of a file's name; of one's own that of its folder."""
    path = Path(name)
    if path.suffix and path.name == OWN_FILE:
        path = path.parent
    return path.resolve().stem if name not in papers() else name


class CellAddress(NamedTuple):
    """The cell of a table of a paper, such as `diffaug.1.3.avg`."""

    paper: str
    table: str
    row: str
    column: str


def cell_address(text: str) -> CellAddress | None:
    """The cell that a text names; None where it has another form. A path may have points."""
    parts = re.fullmatch(r"(.+?)\.(\d+)\.(\d+)\.(.+)", text)
    return CellAddress(*parts.groups()) if parts else None


def _own_file(name: str) -> Path:
    path = Path(name)
    if path.suffix in (".yaml", ".yml"):
        return path
    if not name or not is_folder(path):
        near = (path.parent / each.parent.name for each in path.parent.glob(f"*/{OWN_FILE}"))
        raise UserError(
            f'there are no reported numbers of a paper "{name}"'
            f"{suggest(name, [*papers(), *map(str, near)])}"
        )
    if kind_of(path / OWN_FILE) == "nothing":
        raise UserError(
            f"{name} is no paper: it has no {OWN_FILE}; `harness new paper NAME` writes a folder "
            "with one"
        )
    return path / OWN_FILE
