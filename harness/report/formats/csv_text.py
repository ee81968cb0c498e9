"""Lines of CSV in which no cell is a formula for a spreadsheet."""

import csv
import io
import math
from collections.abc import Iterable, Sequence
from typing import Any

from harness.errors import visible

_BEGINNINGS = ("=", "+", "-", "@", "\t")
"""With what a text begins that a spreadsheet would compute"""


def csv_text(heading: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """The rows below their heading. A text that a spreadsheet would compute begins with `'`.

    Control characters other than line ends and tabs are shown by their escapes.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")  # its default is the line end of Windows
    writer.writerows([_cell(value) for value in row] for row in (heading, *rows))
    return text.getvalue()


def _cell(value: Any) -> Any:
    """A number as it is, also one that is written as a text; another text without a formula."""
    if not isinstance(value, str):
        return value
    text = visible(value)
    return f"'{text}" if text.startswith(_BEGINNINGS) and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
