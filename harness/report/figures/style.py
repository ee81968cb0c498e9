"""How figures look: readable in print, in grey and by colour-blind readers.

Whatever a colour tells, a line style or a marker tells, too.
"""

import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

COLOURS = ("#000000", "#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""The palette of Okabe and Ito without its yellow, which is hardly seen on paper"""
LINE_STYLES: tuple[Any, ...] = (
    "-",
    "--",
    "-.",
    ":",
    (0, (5, 1)),
    (0, (3, 1, 1, 1, 1, 1)),
    (0, (1, 1)),
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "h", "*")
PALE = "#9a9a9a"
"""What stands behind the lines that matter"""
PAGE_WIDTH = 7.0
"""Inches, as wide as the text of a page"""
LEGEND_WIDTH = 95
"""The most characters in a line of a legend"""
TICKS = 6
"""An axis names each of at most so many values"""
STYLE: Any = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.formatter.useoffset": False,
    "lines.markersize": 5,
    "lines.linewidth": 1.4,
    "svg.hashsalt": "harness",
    "pdf.fonttype": 42,
}
"""The settings of matplotlib under which every figure is drawn"""


@dataclass(frozen=True)
class Look:
    """The colour, the line and the marker of one of several things in a figure."""

    color: str
    linestyle: Any
    marker: str

    @property
    def line(self) -> dict[str, Any]:
        """The arguments of a line without markers."""
        return {"color": self.color, "linestyle": self.linestyle}

    @property
    def points(self) -> dict[str, Any]:
        """The arguments of points without a line."""
        return {"color": self.color, "marker": self.marker, "linestyle": "none"}

    @property
    def both(self) -> dict[str, Any]:
        """The arguments of a line with markers."""
        return {**self.points, **self.line}


def look(number: int) -> Look:
    """How thing number `number` looks, from 0; 77 things differ in colour or marker."""
    return Look(
        COLOURS[number % len(COLOURS)],
        LINE_STYLES[(number // len(COLOURS) + number) % len(LINE_STYLES)],
        MARKERS[number % len(MARKERS)],
    )


def panels(
    count: int,
    columns: int = 2,
    height: float = 2.2,
    named: Sequence[str] = (),
    *,
    shown: Literal["line", "points", "both"] = "line",
) -> tuple[Figure, list[Axes]]:
    """A figure with so many panels, and below them a legend.

    height: inches of each panel. named: what the looks of number 0, 1, ... stand for. shown: which
    part of a look the legend shows.
    """
    columns = min(columns, count)
    rows = -(-count // columns)
    labels = [textwrap.fill(each, LEGEND_WIDTH, max_lines=2) for each in named]
    legend = 0.18 * sum(label.count("\n") + 1 for label in labels) + 0.05
    # A Figure without pyplot needs no display.
    figure = Figure(figsize=(PAGE_WIDTH, rows * height + legend + 1.1), layout="constrained")
    grid = figure.add_gridspec(rows + 1, columns, height_ratios=[*[height] * rows, legend])
    if labels:
        below = figure.add_subplot(grid[rows, :])
        below.set_axis_off()
        looks = [getattr(look(number), shown) for number in range(len(labels))]
        lines = [below.plot([], [], **each)[0] for each in looks]
        below.legend(lines, labels, loc="upper left", borderaxespad=0)
    places = [(place // columns, place % columns) for place in range(count)]
    return figure, [figure.add_subplot(grid[place]) for place in places]


def end_at(axis: Axes, low: float | None = None, high: float | None = None) -> None:
    """End the vertical axis where its quantity ends; None: it has no end on this side."""
    bottom, top = axis.get_ylim()
    axis.set_ylim(
        bottom if low is None else max(low, bottom), top if high is None else min(high, top)
    )


def end_at_scores(axis: Axes) -> None:
    """End the vertical axis at -100 and 100, between which correlations x100 and accuracies are.

    An axis with another score beyond these stays as it is.
    """
    bottom, top = axis.dataLim.intervaly
    if bottom >= -100 and top <= 100:
        end_at(axis, -100, 100)


def number_text(value: Any) -> str:
    """A value as an axis or a legend shows it: numbers with three digits, texts not too long."""
    if isinstance(value, float):
        return f"{value:.3g}"
    return textwrap.shorten(str(value), 16, placeholder="...") if " " in str(value) else _cut(value)


def _cut(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 16 else f"{text[:13]}..."


def spans_decades(values: Iterable[float]) -> bool:
    """Whether a logarithmic axis shows numbers better: all are positive, the largest 8 times the
    smallest or more."""
    known = list(values)
    return bool(known) and min(known) > 0 and max(known) >= 8 * min(known)


def plain_numbers(axis: Axis) -> None:
    """Let an axis name its numbers without a power of ten that stands elsewhere."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def log_ticks(axis: Axis) -> None:
    """Let a logarithmic axis name powers of ten as plain numbers; a short one, 2 and 5 as well."""
    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 40 * low else (1.0,)))
    plain_numbers(axis)
    axis.set_minor_formatter(NullFormatter())


def number_ticks(axis: Axes, values: Sequence[float]) -> None:
    """Let a horizontal axis name these numbers, where they are few and not too close."""
    known = sorted(set(values))
    gaps = [after - before for before, after in pairwise(known)]
    # Values such as 1, 2, ..., 20 are even on a plain axis, and 1, 2, 4, ..., 32 on the other.
    log = spans_decades(known) and max(gaps) >= 3 * min(gaps)
    if log:
        axis.set_xscale("log")
        axis.set_xlim(known[0], known[-1])
        log_ticks(axis.xaxis)
    else:
        whole = all(value == int(value) for value in known)
        # Fractions such as 2.5e-05 are long.
        axis.xaxis.set_major_locator(MaxNLocator("auto" if whole else 3, integer=whole))
        plain_numbers(axis.xaxis)
    at = [math.log(value) for value in known] if log else known
    labels = [number_text(value) for value in known]
    # A character takes about a twentieth of a narrow panel.
    room = 0.05 * max(map(len, labels)) * (at[-1] - at[0])
    if len(known) <= TICKS and all(after - before >= room for before, after in pairwise(at)):
        axis.set_xticks(known, labels)
        axis.set_xticks([], minor=True)
    axis.autoscale(axis="x")
