"""Writes figures to files; the same figures give the same bytes."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import matplotlib

from harness.report.figures.report_figure import ReportFigure
from harness.report.figures.style import STYLE

FigureFormat = Literal["png", "svg", "pdf"]
_METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
"""What a format would say of the day and of the version of matplotlib; None: nothing"""
DOTS_PER_INCH = 200


def write_figures(
    figures: Sequence[ReportFigure], folder: Path, format: FigureFormat, *, bare: bool = False
) -> Iterator[Path]:
    """Write each figure into a folder that exists; yields the paths.

    bare: without title and caption, for a page that has its own. Raises OSError when a file cannot
    be written.
    """
    for each in figures:
        with matplotlib.rc_context():
            matplotlib.rcdefaults()  # what a user has set elsewhere must not change the bytes
            matplotlib.rcParams.update(STYLE)
            drawn = each.draw(each.table)
            if not bare:
                drawn.suptitle(each.title, x=0.01, ha="left", fontsize=10, fontweight="bold")
                drawn.supxlabel("\n".join(each.caption_lines), x=0.01, ha="left", fontsize=8)
            path = folder / f"{each.name}.{format}"
            drawn.savefig(path, format=format, dpi=DOTS_PER_INCH, metadata=_METADATA[format])
        yield path
