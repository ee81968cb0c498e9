"""The papers by their names, and papers of one's own by their folders or files."""

import re
from pathlib import Path
from typing import NamedTuple

from harness.errors import UserError, suggest
from harness.files import shipped
from harness.inputs import is_folder, kind_of
from harness.report.paper import Paper
from harness.report.published import SYSTEMS_FILE, load_yaml

OWN_FILE = "paper.yaml"
"""The file of a paper of one's own, in its folder"""


def papers() -> list[str]:
    """The names of the papers with reported numbers, sorted."""
    files = shipped("reported").glob("*.yaml")
    return sorted(path.stem for path in files if path.stem != SYSTEMS_FILE)


def load_paper(name: str) -> Paper:
    """The numbers of a paper.

    name: that of one which comes with harness, or else the folder of one's own, or its file.
    Raises UserError where there is none, and for whatever is wrong in one's own.
    """
    if name in papers():
        # The file also has claims, grids and what the text says of plots.
        read = ("paper", "title", "tables")
        paper: Paper = load_yaml(shipped("reported") / f"{name}.yaml", Paper, read)
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
        near = (path.parent / own.parent.name for own in path.parent.glob(f"*/{OWN_FILE}"))
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


def table_names(paper: Paper, number: str | None) -> list[str]:
    """The name of a table by its number, or of all tables. Raises UserError for an unknown one."""
    if number is None:
        return list(paper.numbers.values())
    if number not in paper.numbers:
        raise UserError(f"{paper.paper} has no Table {number}{suggest(number, paper.numbers)}")
    return [paper.numbers[number]]
