"""The figure of a table whose columns are the values of a hyperparameter: a curve for each row."""

from collections.abc import Iterator, Sequence
from typing import Any

from harness.evaluation.catalogue import DISPLAY
from harness.report.cells import Cell
from harness.report.figures.specification import (
    NAMED,
    Figure,
    Look,
    Mark,
    Panel,
    bar_ends,
    mark_of,
    number_text,
    score_axis,
    value_axis,
)
from harness.report.notes import foreign
from harness.report.paper_cells import PaperTable
from harness.report.published import TableFigure
from harness.report.tables import Row


def table_figure(
    name: str, figure: TableFigure, compared: PaperTable, command: str
) -> tuple[list[Figure], list[str]]:
    """The figure, or none where the store has no trial of it; and what the store lacks.

    name: that of its file. compared: its table, which `command` fills.
    """
    places = compared.paper.places(figure)
    curves = [
        (label, list(_points(label, row.cells, places))) for label, row in _labelled(compared)
    ]
    notes = _lacking(figure, compared, places, command)
    if not any(point["source"] == "ours" for _, points in curves for point in points):
        return [], notes
    cells = [cell for cell in compared.cells if cell.ours and cell.group]
    counts = sorted({str(cell.ours.n) for cell in cells if cell.ours}, key=int)
    metric = next(cell.metric.name for cell in cells if cell.metric)
    shown = DISPLAY.get(metric, metric)
    quoted = any(point["source"] == "paper" for _, points in curves for point in points)
    marks = [
        mark for number, (_, points) in enumerate(curves) for mark in _marks(points, _look(number))
    ]
    panel = Panel(
        value_axis(figure.axis, places, width=80)[0],
        score_axis(shown, bar_ends(mark for mark in marks if mark.kind == "points"), 0.15),
        marks,
        height=2.6,
    )
    drawn = Figure(
        name=name,
        title=f"{compared.paper.title}: {figure.about}",
        caption=f"{shown}, mean over the seeds; bars: sample standard deviation over the seeds (n "
        f"= {', '.join(counts)}).{' Hollow: published numbers.' if quoted else ''}",
        rows=[point for _, points in curves for point in points],
        panels=[panel],
        legend=[label for label, _ in curves[:NAMED]],
        columns=1,
    )
    return [drawn], [*notes, *foreign(cell.group for cell in cells if cell.group)]


def _labelled(compared: PaperTable) -> list[tuple[str, Row]]:
    """The rows of a table, each with its label."""
    rows = [row for _, rows in compared.sections for row in rows]
    return list(zip([each.label for each in compared.table.rows], rows, strict=True))


def _look(number: int) -> Look:
    return number if number < NAMED else "pale"


def _points(label: str, cells: Sequence[Cell], places: Sequence[float]) -> Iterator[dict[str, Any]]:
    """The points of a row: ours, and those that somebody published."""
    for cell, place in sorted(zip(cells, places, strict=True), key=lambda pair: pair[1]):
        named = {"row": label, "at": float(place)}
        if cell.ours:
            spread = {"std": cell.ours.std, "n": cell.ours.n}
            keys = " ".join(key[:10] for key in cell.ours.keys)
            yield {**named, "source": "ours", "value": cell.ours.mean, **spread, "note": keys}
        if cell.number is not None and cell.published:
            source = {"std": None, "n": None, "note": cell.published.source}
            yield {**named, "source": "paper", "value": cell.number, **source}


def _marks(points: Sequence[dict[str, Any]], look: Look) -> list[Mark]:
    ours, told = (
        [point for point in points if point["source"] == source] for source in ("ours", "paper")
    )
    spread = [point["std"] for point in ours]
    x, y = ([point[name] for point in ours] for name in ("at", "value"))
    theirs = mark_of("points", told, "at", "value", look)
    return [
        Mark("line", x, y, look),
        Mark("points", x, y, look, ours, spread),
        Mark("points", theirs.x, theirs.y, look, told, hollow=True),
    ]


def _lacking(
    figure: TableFigure, compared: PaperTable, places: Sequence[float], command: str
) -> list[str]:
    """A sentence about each row that has not all of its points, with the command."""
    sentences = []
    for label, row in _labelled(compared):
        cells = zip(row.cells, places, strict=True)
        missing = [number_text(at) for cell, at in cells if cell.wanted and not cell.ours]
        if missing:
            of = f"{figure.axis} {', '.join(missing)} of {label}"
            sentences.append(f"the store lacks {of}; run: {command}")
    return sentences
