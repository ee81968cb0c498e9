"""A table of the page as plain data, which its script shows, sorts and filters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

GridCell = str | Mapping[str, Any]
"""Text, or an object with `text` and more.

`value`: the number by which it is sorted. `trial`: the trial that a click shows. `score`: what a
click shows of a score.
"""


@dataclass(frozen=True)
class Grid:
    """A table of the page."""

    name: str
    """The name of its file, such as `table-1`"""
    title: str
    caption: str
    columns: Sequence[str]
    text_columns: int
    """The leading columns that are text; the others are numbers"""
    sections: Sequence[tuple[str, Sequence[Sequence[GridCell]]]]
    """(heading, rows)"""
    notes: Sequence[str] = ()
    compared: bool = False
    """Whether it has published numbers, which the reader may show and hide"""
    quoted: bool = False
    """Whether it has no score of ours, so that the published numbers are shown from the start"""
    sortable: bool = True
    """Whether every row stands for itself"""
    show_options: str = ""
    """What `harness show` needs besides the address of a score, such as ` --store FOLDER`"""

    @property
    def rows(self) -> int:
        """The number of its rows."""
        return sum(len(rows) for _, rows in self.sections)

    @property
    def data(self) -> dict[str, Any]:
        """What its script reads."""
        return {
            "title": self.title,
            "caption": self.caption,
            "columns": list(self.columns),
            "textColumns": self.text_columns,
            "sections": [{"name": name, "rows": rows} for name, rows in self.sections],
            "compared": self.compared,
            "quoted": self.quoted,
            "sortable": self.sortable,
            "showOptions": self.show_options,
        }


def number_cell(value: float | None, decimals: int = 0) -> GridCell:
    """A number that is sorted as one; an empty cell where there is none."""
    return "" if value is None else {"text": f"{value:,.{decimals}f}", "value": value}
