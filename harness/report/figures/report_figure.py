"""A figure of a report: its data as a table, its words, and how it is drawn."""

import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CAPTION_WIDTH = 80
"""The most characters in a line of a caption"""


@dataclass(frozen=True)
class ReportFigure:
    """A figure before it is drawn."""

    name: str
    """The name of its files, without a suffix"""
    title: str
    caption: str
    """What it shows: n, the rule of selection, and what error bars are"""
    table: pa.Table
    """All numbers that are drawn, one row for each point"""
    draw: Callable[[pa.Table], "Figure"]
    """Draws the table, without title and caption"""

    @property
    def caption_lines(self) -> list[str]:
        """The caption in lines of at most CAPTION_WIDTH characters."""
        return textwrap.wrap(self.caption, CAPTION_WIDTH)


def file_name(*words: str) -> str:
    """Words as the name of a file: small letters, digits, dots and hyphens."""
    kept = "".join(char if char.isalnum() or char == "." else "-" for char in " ".join(words))
    return "-".join(filter(None, kept.lower().split("-")))
