"""What the text of a paper says about the points of its figures; the plotted ones are not data."""

import functools
from dataclasses import dataclass

import yaml

from harness.report.published import folder


@dataclass(frozen=True)
class PublishedPoint:
    """A point of a published figure."""

    at: float
    """The place on the horizontal axis"""
    value: float | None
    """None: the text says something about the place alone"""
    note: str
    """What the text says, or where the value is from"""


@functools.cache
def published_points(paper: str, figure: str) -> tuple[PublishedPoint, ...]:
    """The points of a figure, `figure5` or `figure3a`; none where the text has none."""
    found = yaml.safe_load((folder() / f"{paper}.yaml").read_text(encoding="utf-8"))
    points = found["figures"][figure].get("points") or ()
    own = {"value", "note", "source"}
    return tuple(
        PublishedPoint(
            at=next(float(value) for name, value in point.items() if name not in own),
            value=point.get("value"),
            note=point.get("note") or point.get("source") or "",
        )
        for point in points
    )
