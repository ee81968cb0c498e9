"""Sentences on the plane of their first two principal components, with the gold scores of pairs."""

import string
import textwrap
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from matplotlib.figure import Figure

from harness.data.sts_pairs import Pairs
from harness.evaluation.correlation import unit_rows
from harness.evaluation.geometry import BOUNDARIES
from harness.report.figures.embeddings import Drawn
from harness.report.figures.report_figure import ReportFigure
from harness.report.figures.style import COLOURS, PALE, panels

PLANE = pa.schema(
    [
        ("model", pa.string()),
        ("pair", pa.int64()),
        ("side", pa.string()),  # first | second
        ("sentence", pa.string()),
        ("gold", pa.float64()),  # of the pair
        ("example", pa.string()),  # the letter of a pair that is labelled; else null
        ("x", pa.float64()),  # on the first component
        ("y", pa.float64()),
        ("x_share", pa.float64()),  # of the variance, 0 to 1, of all sentences of the model
        ("y_share", pa.float64()),
    ]
)
SHOWN_CHARACTERS = 30
"""Of an example sentence, so many characters stand in the caption"""


def plane(models: Sequence[Drawn], pairs: Pairs) -> pa.Table:
    """The place of every sentence for each model (PLANE)."""
    examples = example_pairs(pairs)
    rows = []
    for model in models:
        places, shares = projected(np.concatenate([model.first, model.second]))
        for row, (x, y) in enumerate(places.tolist()):
            pair, second = row % len(pairs), row >= len(pairs)
            rows.append(
                {
                    "model": model.label,
                    "pair": pair,
                    "side": "second" if second else "first",
                    "sentence": (pairs.second if second else pairs.first)[pair],
                    "gold": float(pairs.gold[pair]),
                    "example": examples.get(pair),
                    "x": x,
                    "y": y,
                    "x_share": shares[0],
                    "y_share": shares[1],
                }
            )
    return pa.Table.from_pylist(rows, schema=PLANE)


def projected(vectors: np.ndarray) -> tuple[np.ndarray, list[float]]:
    """Unit vectors of (rows, hidden) on two components, (rows, 2), and their shares of variance.

    The larger part of each component is positive, so that the picture is the same everywhere.
    """
    units = unit_rows(vectors)
    centred = units - units.mean(axis=0)
    variances, directions = np.linalg.eigh(centred.T @ centred)
    largest = directions[:, :-3:-1]  # eigh sorts the largest eigenvalues to the end
    signs = np.sign(largest[np.abs(largest).argmax(axis=0), [0, 1]])
    shares = (variances[:-3:-1] / variances.sum()).tolist()
    return centred @ (largest * signs), shares


def example_pairs(pairs: Pairs) -> dict[int, str]:
    """The number of a pair -> its letter: of each group of gold scores the first pair."""
    found: dict[int, str] = {}
    for letter, low in zip(string.ascii_uppercase, BOUNDARIES[:-1], strict=False):
        inside = np.flatnonzero((pairs.gold >= low) & (pairs.gold <= low + 1))
        fresh = [int(pair) for pair in inside if int(pair) not in found]
        if fresh:
            found[fresh[0]] = letter
    return found


def plane_figure(models: Sequence[Drawn], pairs: Pairs, name: str = "projection") -> ReportFigure:
    """The figure of the plane, with models side by side and a pair of each gold group labelled."""
    words = [
        f"{letter} ({pairs.gold[pair]:.1f}): {_short(pairs.first[pair])} / "
        f"{_short(pairs.second[pair])}"
        for pair, letter in example_pairs(pairs).items()
    ]
    return ReportFigure(
        name=name,
        title="Sentences of STS-B test on a plane",
        caption="Unit vectors on their first two principal components, with the shares of the "
        "variance that these have; dark points are those of pairs with a high gold score. "
        "Examples, each with the gold score of its pair: " + "; ".join(words),
        table=plane(models, pairs),
        draw=draw_plane,
    )


def _short(sentence: str) -> str:
    return textwrap.shorten(sentence, SHOWN_CHARACTERS, placeholder="...")


def draw_plane(table: pa.Table) -> Figure:
    """A panel for each model of a table of PLANE."""
    rows = table.to_pylist()
    models = list(dict.fromkeys(row["model"] for row in rows))
    figure, axes = panels(len(models), height=3.4)
    points = None
    for axis, model in zip(axes, models, strict=True):
        own = sorted((r for r in rows if r["model"] == model), key=lambda row: row["gold"])
        x, y, gold = ([row[name] for row in own] for name in ("x", "y", "gold"))
        # Dark is a high score, on a scale that is even in grey.
        points = axis.scatter(x, y, c=gold, cmap="cividis_r", vmin=0, vmax=5, s=5, linewidths=0)
        for letter in sorted({row["example"] for row in own if row["example"]}):
            ends = [(row["x"], row["y"]) for row in own if row["example"] == letter]
            axis.plot(*zip(*ends, strict=True), color=COLOURS[1], linewidth=0.9, marker="o", ms=3)
            axis.annotate(
                letter, ends[0], xytext=(3, 3), textcoords="offset points", fontsize=8,
                fontweight="bold", bbox={"fc": "white", "ec": "none", "pad": 0.3, "alpha": 0.7},
            )  # fmt: skip
        axis.axhline(0, color=PALE, linewidth=0.4, zorder=0)
        axis.axvline(0, color=PALE, linewidth=0.4, zorder=0)
        axis.set_aspect("equal", "datalim")
        axis.set_title(model, fontsize=8)
        axis.set_xlabel(f"first component ({100 * own[0]['x_share']:.0f} % of the variance)")
        axis.set_ylabel(f"second component ({100 * own[0]['y_share']:.0f} %)")
    assert points is not None
    figure.colorbar(points, ax=axes, label="gold similarity of the pair", shrink=0.8)
    return figure
