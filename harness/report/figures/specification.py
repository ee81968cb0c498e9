"""A figure before it is drawn: its data, its words, and panels of marks on axes.

`harness.report.figures.printing` draws it with matplotlib for print, `figure.js` in the page.
"""

import math
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

Row = Mapping[str, Any]
"""Numbers behind a point, by name; `key` is that of a trial, `values` has hyperparameters"""
FigureFormat = Literal["png", "svg", "pdf"]
Kind = Literal["line", "step", "points", "area", "vertical", "horizontal", "text"]
"""The shape at (x, y); an area is between y and the base"""
Look = int | Literal["pale", "best"]
"""A number of the legend, from 0; `pale` stands behind, `best` is a star or a warm line"""
CAPTION_WIDTH = 80
"""The most characters in a line of a caption"""
TICKS = 6
"""An axis of numbers that were chosen names each of at most so many"""
MARGIN = 0.05
"""An axis goes beyond its values by this share of their range"""
NAMED = 5
"""Lines that have a look of their own where there are more than that; the others are pale"""


@dataclass(frozen=True)
class Axis:
    """A direction of a panel: its words, its ends and the values that it names."""

    label: str
    low: float
    high: float
    log: bool = False
    ticks: Sequence[tuple[float, str]] | None = None
    """(value, its text); None: round numbers"""


@dataclass(frozen=True)
class Mark:
    """Things that are drawn in one way."""

    kind: Kind
    x: Sequence[float]
    y: Sequence[float]
    look: Look = 0
    rows: Sequence[Row] = ()
    """The row of the figure behind each point, which the page tells; none: it tells none"""
    spread: Sequence[float | None] = ()
    """Half the length of the error bar of each point"""
    texts: Sequence[str] = ()
    """Texts beside the points"""
    side: Literal["left", "right"] = "right"
    """The side of the point on which its text stands"""
    base: float = 0.0
    hollow: bool = False


@dataclass(frozen=True)
class Panel:
    """A frame with two axes. Later marks are drawn above earlier ones."""

    x: Axis
    y: Axis
    marks: Sequence[Mark]
    title: str = ""
    height: float = 2.2
    """Inches in print"""
    equal: bool = False
    """Whether a unit is as long on both axes"""


@dataclass(frozen=True)
class Figure:
    """A figure of a report. One without panels has nothing to show, and is not drawn."""

    name: str
    """The name of its files, without a suffix"""
    title: str
    caption: str
    """Its content: n, the rule of selection, and what error bars are"""
    panels: Sequence[Panel]
    rows: Sequence[Row] = ()
    """The numbers that are drawn, one row for each point; the page tells them"""
    legend: Sequence[str] = ()
    """Names of looks 0, 1, ..."""
    columns: int = 2
    """Panels beside each other in print"""
    ordered: bool = False
    """Whether looks 0, 1, ... go from pale to dark, and not from colour to colour"""

    @property
    def caption_lines(self) -> list[str]:
        """The caption in lines of at most CAPTION_WIDTH characters."""
        return textwrap.wrap(self.caption, CAPTION_WIDTH)

    def page_data(self, trials: Mapping[str, int]) -> dict[str, Any]:
        """The data for the page's script. `trials`: key of a trial -> its number in the page."""
        numbers = {id(row): number for number, row in enumerate(self.rows)}
        flat = [{**row.get("values", {}), **row} for row in self.rows]
        names = dict.fromkeys(name for row in flat for name in row if name not in ("key", "values"))
        return {
            "legend": self.legend,
            "ordered": self.ordered,
            "panels": [_page_panel(panel, numbers) for panel in self.panels],
            "rows": len(flat),
            "columns": {name: _page_column([row.get(name) for row in flat]) for name in names},
            "trials": [trials.get(row.get("key", "")) for row in flat],
        }


def _page_panel(panel: Panel, numbers: Mapping[int, int]) -> dict[str, Any]:
    """The values of a panel in short numbers: histories are most of a page."""
    marks = [
        {
            **vars(mark),
            "x": _short(mark.x),
            "y": _short(mark.y),
            "spread": _short(mark.spread),
            "rows": [numbers[id(row)] for row in mark.rows],
        }
        for mark in panel.marks
    ]
    return {**vars(panel), "x": vars(panel.x), "y": vars(panel.y), "marks": marks}


def _page_column(values: Sequence[Any]) -> dict[str, Any]:
    """A column; text, which repeats itself, is numbered."""
    if not values or not all(isinstance(value, str) for value in values):
        return {"values": _short(values)}
    numbers = {text: number for number, text in enumerate(dict.fromkeys(values))}
    return {"values": list(numbers), "codes": [numbers[text] for text in values]}


def _short(values: Iterable[Any]) -> list[Any]:
    """Fractions with the six digits of which a page shows five."""
    return [float(f"{value:.6g}") if isinstance(value, float) else value for value in values]


def mark_of(kind: Kind, rows: Sequence[Row], x: str, y: str, look: Look) -> Mark:
    """A mark at two numbers of these rows of a figure."""
    return Mark(kind, [row[x] for row in rows], [row[y] for row in rows], look, rows)


def axis(
    label: str,
    values: Iterable[float],
    *,
    least: float = -math.inf,
    most: float = math.inf,
    log: bool = False,
    ticks: Sequence[tuple[float, str]] | None = None,
    margin: float = MARGIN,
) -> Axis:
    """An axis around these values.

    least, most: where the quantity ends, and the axis with it, unless a value lies beyond.
    """
    numbers = list(values) or [0.0]
    low, high = min(numbers), max(numbers)
    if log:
        factor = (high / low) ** margin if high > low else 2.0
        return Axis(label, low / factor, high * factor, log, ticks)
    beyond = margin * (high - low) or 0.05 * abs(low) or 1.0
    return Axis(
        label,
        max(low - beyond, least) if low >= least else low - beyond,
        min(high + beyond, most) if high <= most else high + beyond,
        log,
        ticks,
    )


def score_axis(label: str, values: Iterable[float], margin: float = 0.08) -> Axis:
    """An axis of scores, which are between -100 and 100."""
    return axis(label, values, least=-100, most=100, margin=margin)


def bar_ends(marks: Iterable[Mark]) -> list[float]:
    """The heights of all points, and of the ends of their error bars."""
    return [
        height + sign * (spread or 0)
        for mark in marks
        for height, spread in zip(mark.y, mark.spread or [None] * len(mark.y), strict=True)
        for sign in (-1, 1)
    ]


def value_axis(label: str, values: Sequence[Any], width: float = 40) -> tuple[Axis, list[float]]:
    """The axis of a hyperparameter's values, and the place of each value on it.

    The axis names the values where they are few and not too close. width: of the axis, in
    characters. What is no number has a place for each text.
    """
    if not are_numbers(values):
        shown = texts_of(values)
        texts = sorted({*shown.values()})
        places = [float(texts.index(shown[str(value)])) for value in values]
        return Axis(label, -0.5, len(texts) - 0.5, ticks=list(enumerate(texts))), places
    numbers = [float(value) for value in values]
    distinct = sorted(set(numbers))
    gaps = [after - before for before, after in pairwise(distinct)]
    # Values such as 1, 2, ..., 20 are even on a plain axis, and 1, 2, 4, ..., 32 on the other.
    log = spans_decades(distinct) and max(gaps) >= 3 * min(gaps)
    at = [math.log(value) for value in distinct] if log else distinct
    shown = texts_of(distinct)
    room = max(len(text) + 1 for text in shown.values()) / width * (at[-1] - at[0])
    named = len(distinct) <= TICKS and all(after - before >= room for before, after in pairwise(at))
    ticks = [(value, shown[str(value)]) for value in distinct] if named else None
    return axis(label, distinct, log=log, ticks=ticks, margin=0.1), numbers


def number_text(value: Any) -> str:
    """A value as an axis or a legend shows it: fractions with three digits, texts not too long."""
    if isinstance(value, float):
        return f"{value:.0f}" if value.is_integer() and abs(value) < 1e6 else f"{value:.3g}"
    text = str(value)
    if " " in text:
        return textwrap.shorten(text, 16, placeholder="...")
    return text if len(text) <= 16 else f"{text[:13]}..."


def texts_of(values: Sequence[Any]) -> dict[str, str]:
    """Value as text -> how an axis or a legend shows it: whole where a short text is of several."""
    meant = defaultdict[str, set[Any]](set)
    for value in values:
        meant[number_text(value)].add(value if are_numbers([value]) else str(value))
    short = {str(value): number_text(value) for value in values}
    return {whole: text if len(meant[text]) == 1 else whole for whole, text in short.items()}


def are_numbers(values: Iterable[Any]) -> bool:
    """Whether all are numbers, so that an axis has an order and distances."""
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def spans_decades(values: Iterable[float]) -> bool:
    """Whether a logarithmic axis shows numbers better: all are positive, the largest 8 times the
    smallest or more."""
    numbers = list(values)
    return bool(numbers) and min(numbers) > 0 and max(numbers) >= 8 * min(numbers)


def round_values(low: float, high: float, *, log: bool = False) -> list[float]:
    """Round numbers from low to high: multiples of 1, 2 or 5 times a power of ten.

    log: powers of ten, with 2 and 5 times them where these are few.
    """
    if log:
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        factors = (1, 2, 5) if high < 40 * low else (1,)
        values = [factor * 10.0**power for power in powers for factor in factors]
        return [value for value in values if low <= value <= high]
    if high <= low:
        return [low]
    rough = (high - low) / (TICKS - 1)
    power = 10 ** math.floor(math.log10(rough))
    step = power * next(factor for factor in (1, 2, 5, 10) if factor * power >= 0.999 * rough)
    return [step * n for n in range(math.ceil(low / step), math.floor(high / step) + 1)]


def file_name(*words: str) -> str:
    """Words as the name of a file: small letters, digits, dots and hyphens."""
    kept = "".join(char if char.isalnum() or char == "." else "-" for char in " ".join(words))
    return "-".join(filter(None, kept.lower().split("-")))
