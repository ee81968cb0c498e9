"""Draws figures with matplotlib into files; the same figures give the same bytes.

They are readable in print, in grey and by colour-blind readers: whatever a colour tells, a line
style or a marker tells, too.
"""

import textwrap
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.axis import Axis as DrawnAxis
from matplotlib.figure import Figure as Drawing
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from harness.report.figures.specification import Axis, Figure, FigureFormat, Look, Mark, Panel

COLOURS = ("#000000", "#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""The palette of Okabe and Ito without its yellow, which is hardly seen on paper"""
LINE_STYLES: tuple[Any, ...] = (
    "-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1, 1, 1)), (0, (1, 1)),
)  # fmt: skip
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "h", "*")
PALE = "#9a9a9a"
"""The colour behind the lines that matter"""
SHADES = ("#fdea45", "#bcae6c", "#7c7b78", "#3d4d6c", "#00224e")
"""From pale to dark: five colours of cividis, even in grey"""
PAGE_WIDTH = 7.0
"""Inches, as wide as the text of a page"""
LEGEND_WIDTH = 95
"""The most characters in a line of a legend"""
DOTS_PER_INCH = 200
_STYLE: Any = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.markersize": 5,
    "lines.linewidth": 1.4,
    "svg.hashsalt": "harness",
    "pdf.fonttype": 42,
}
_METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
"""Facts of a format about the day and the version of matplotlib; None: it has none"""


def write_figures(
    figures: Sequence[Figure], folder: Path, format: FigureFormat, *, bare: bool = False
) -> Iterator[Path]:
    """Write each figure into a folder that exists; yields the paths.

    bare: without title and caption, for a page that has its own. Raises OSError when a file cannot
    be written.
    """
    for figure in figures:
        with matplotlib.rc_context():
            matplotlib.rcdefaults()  # what a user has set elsewhere must not change the bytes
            matplotlib.rcParams.update(_STYLE)
            drawing = draw(figure)
            if not bare:
                title = textwrap.fill(figure.title, LEGEND_WIDTH)
                drawing.suptitle(title, x=0.01, ha="left", fontsize=10, fontweight="bold")
                drawing.supxlabel("\n".join(figure.caption_lines), x=0.01, ha="left", fontsize=8)
            path = folder / f"{figure.name}.{format}"
            drawing.savefig(path, format=format, dpi=DOTS_PER_INCH, metadata=_METADATA[format])
        yield path


def draw(figure: Figure) -> Drawing:
    """The figure with its panels, and below them its legend; without title and caption."""
    columns = min(figure.columns, len(figure.panels))
    rows = -(-len(figure.panels) // columns)
    labels = [textwrap.fill(label, LEGEND_WIDTH, max_lines=2) for label in figure.legend]
    legend = 0.18 * sum(label.count("\n") + 1 for label in labels) + 0.05
    height = figure.panels[0].height
    # A figure without pyplot needs no display.
    drawing = Drawing(figsize=(PAGE_WIDTH, rows * height + legend + 1.1), layout="constrained")
    grid = drawing.add_gridspec(rows + 1, columns, height_ratios=[*[height] * rows, legend])
    for place, panel in enumerate(figure.panels):
        axes = drawing.add_subplot(grid[place // columns, place % columns])
        _draw_panel(axes, panel, 80 // columns, ordered=figure.ordered)
    if labels:
        below = drawing.add_subplot(grid[rows, :])
        below.set_axis_off()
        kinds = [
            {mark.kind for panel in figure.panels for mark in panel.marks if mark.look == number}
            for number in range(len(labels))
        ]
        below.legend(
            [
                Line2D([], [], **_style(number, shown, ordered=figure.ordered))
                for number, shown in enumerate(kinds)
            ],
            labels,
            loc="upper left",
            borderaxespad=0,
        )
    return drawing


def _style(look: Look, kinds: Collection[str], *, ordered: bool = False) -> dict[str, Any]:
    """The arguments of matplotlib for lines and points; 77 numbers differ in colour or marker."""
    if look == "pale":
        style: dict[str, Any] = {"color": PALE, "linewidth": 0.8, "marker": ".", "linestyle": "-"}
    elif look == "best":
        style = {"color": COLOURS[1], "marker": "*", "markersize": 11, "linestyle": "-"}
    elif ordered:
        style = {"color": SHADES[look], "marker": "o", "markersize": 3, "markeredgewidth": 0}
    else:
        dashes = LINE_STYLES[(look // len(COLOURS) + look) % len(LINE_STYLES)]
        colour = COLOURS[look % len(COLOURS)]
        style = {"color": colour, "linestyle": dashes, "marker": MARKERS[look % len(MARKERS)]}
    if "points" not in kinds:
        style["marker"] = None
    elif "line" not in kinds:
        style["linestyle"] = "none"
    return style


def _draw_panel(axes: Axes, panel: Panel, width: int, *, ordered: bool) -> None:
    """`width`: of the panel, in characters."""
    axes.set_xscale("log" if panel.x.log else "linear")
    axes.set_yscale("log" if panel.y.log else "linear")
    for layer, mark in enumerate(panel.marks):
        _draw_mark(axes, mark, _style(mark.look, [mark.kind], ordered=ordered), 2 + layer / 1000)
    axes.set_title(panel.title, fontsize=8 if len(panel.title) > 40 else 9)
    if panel.equal:
        axes.set_aspect("equal", "datalim")
    else:
        axes.set(xlim=(panel.x.low, panel.x.high), ylim=(panel.y.low, panel.y.high))
    _draw_axis(axes.xaxis, panel.x)
    _draw_axis(axes.yaxis, panel.y)
    axes.spines["left"].set_visible(panel.y.ticks is None or bool(panel.y.ticks))
    if sum(len(text) + 2 for _, text in panel.x.ticks or ()) > width:
        axes.tick_params("x", labelrotation=25)


def _draw_mark(axes: Axes, mark: Mark, style: dict[str, Any], layer: float) -> None:
    if mark.kind == "area":
        axes.fill_between(
            mark.x, mark.base, mark.y, color=style["color"], alpha=0.35, lw=0, zorder=layer
        )
    elif mark.kind == "vertical":
        for value in mark.x:
            axes.axvline(value, **{**style, "linestyle": ":"}, zorder=layer)
    elif mark.kind == "horizontal":
        for value in mark.y:
            axes.axhline(value, **{**style, "linewidth": 0.6}, zorder=layer)
    elif mark.kind == "text":
        side = "right" if mark.side == "left" else "left"
        for x, y, text in zip(mark.x, mark.y, mark.texts, strict=True):
            axes.annotate(
                text, (x, y), xytext=(-4 if side == "right" else 4, 0), ha=side, va="center",
                textcoords="offset points", fontsize=7.5, annotation_clip=False, zorder=layer,
                bbox={"fc": "white", "ec": "none", "pad": 0.4, "alpha": 0.8},
            )  # fmt: skip
    elif mark.kind == "points" and any(mark.spread):
        # A trial alone has no spread, and a bar of no length.
        spread = [value or 0.0 for value in mark.spread]
        axes.errorbar(mark.x, mark.y, yerr=spread, capsize=3, **_filled(mark, style), zorder=layer)
    else:
        drawn = "steps-post" if mark.kind == "step" else "default"
        axes.plot(mark.x, mark.y, drawstyle=drawn, **_filled(mark, style), zorder=layer)


def _filled(mark: Mark, style: dict[str, Any]) -> dict[str, Any]:
    return {**style, "markerfacecolor": "none"} if mark.hollow else style


def _draw_axis(drawn: DrawnAxis, axis: Axis) -> None:
    drawn.set_label_text(axis.label)
    if axis.log:
        few = axis.high < 40 * axis.low
        drawn.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,)))
    elif axis.ticks is None:
        drawn.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    # An axis names its numbers without a power of ten that stands elsewhere.
    drawn.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    drawn.set_minor_formatter(NullFormatter())
    if axis.ticks is not None:
        drawn.set_ticks([at for at, _ in axis.ticks], [text for _, text in axis.ticks])
        drawn.set_ticks([], minor=True)
