"""Densities of the cosines of sentence pairs: of each model, and by gold score.

They are those of Figure 2 of D2CSE and of Figure 2 of DiffCSE.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from matplotlib.figure import Figure

from harness.data.sts_pairs import Pairs
from harness.errors import TrialFailure
from harness.evaluation.correlation import EQUAL, pair_cosines
from harness.evaluation.geometry import cosines_by_gold
from harness.report.figures.embeddings import Drawn
from harness.report.figures.report_figure import ReportFigure
from harness.report.figures.style import COLOURS, end_at, look, panels

DENSITIES = pa.schema(
    [
        ("model", pa.string()),
        ("gold", pa.string()),  # the gold scores of the pairs, such as 0-1; null: all pairs
        ("pairs", pa.int64()),
        ("cosine", pa.float64()),
        ("density", pa.float64()),
    ]
)
POINTS = 400
"""Number of points of the curve of a density"""


def density(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cosines from -1 to 1, and the density of the values (n,) there, which integrates to 1.

    What a kernel puts beyond 1 or -1, where no cosine is, is folded back at this end. Raises
    TrialFailure when all values are the same.
    """
    if len(values) < 2 or np.ptp(values) <= EQUAL:
        raise TrialFailure(
            "there is no density to draw: sentence pairs have the same cosine, so the embedding is "
            "constant"
        )
    from scipy.stats import gaussian_kde  # it takes long to import

    kernel = gaussian_kde(values)
    width = 4 * float(np.sqrt(kernel.covariance[0, 0]))
    low, high = max(-1.0, values.min() - width), min(1.0, values.max() + width)
    at = np.linspace(low, high, POINTS)
    return at, kernel(at) + kernel(2 - at) + kernel(-2 - at)


def _rows(model: str, gold: str | None, cosines: np.ndarray) -> Iterable[dict[str, Any]]:
    common = {"model": model, "gold": gold, "pairs": len(cosines)}
    for at, height in zip(*density(cosines), strict=True):
        yield {**common, "cosine": float(at), "density": float(height)}


def model_densities(models: Iterable[Drawn]) -> pa.Table:
    """The density of the cosines of all pairs, for each model (DENSITIES)."""
    rows = [
        row
        for model in models
        for row in _rows(model.label, None, pair_cosines(model.first, model.second))
    ]
    return pa.Table.from_pylist(rows, schema=DENSITIES)


def gold_densities(models: Iterable[Drawn], pairs: Pairs) -> pa.Table:
    """The density of the cosines of each group of gold scores, for each model (DENSITIES)."""
    rows = [
        row
        for model in models
        for group in cosines_by_gold(pair_cosines(model.first, model.second), pairs.gold)
        for row in _rows(model.label, f"{group.low:.0f}-{group.high:.0f}", group.cosines)
    ]
    return pa.Table.from_pylist(rows, schema=DENSITIES)


def densities_figure(models: Sequence[Drawn], pairs: Pairs, name: str = "cosines") -> ReportFigure:
    """The figure of the densities of all models in one frame."""
    return ReportFigure(
        name=name,
        title="Cosines of the STS-B test pairs",
        caption=f"Kernel density of the cosines of {len(pairs)} pairs, one curve for each model. "
        "A cosine is at most 1, so what the kernel puts beyond is folded back.",
        table=model_densities(models),
        draw=draw_densities,
    )


def draw_densities(table: pa.Table) -> Figure:
    """A curve for each model of a table of DENSITIES."""
    models = list(dict.fromkeys(table["model"].to_pylist()))
    figure, [axis] = panels(1, height=3.2, named=models)
    rows = table.to_pylist()
    for number, model in enumerate(models):
        own = [row for row in rows if row["model"] == model]
        axis.plot([r["cosine"] for r in own], [r["density"] for r in own], **look(number).line)
    axis.set_xlim(max(-1.0, axis.get_xlim()[0]), min(1.0, axis.get_xlim()[1]))
    axis.set_ylim(bottom=0)
    axis.set_xlabel("cosine")
    axis.set_ylabel("density")
    return figure


def gold_figure(
    models: Sequence[Drawn], pairs: Pairs, name: str = "cosines-by-gold"
) -> ReportFigure:
    """The figure of the densities by gold score, with models side by side."""
    return ReportFigure(
        name=name,
        title="Cosines of the STS-B test pairs by gold similarity",
        caption="Kernel densities of the cosines, one for each group of gold scores, each at its "
        "own height; the line in it is its median. Numbers at the right: pairs of the group.",
        table=gold_densities(models, pairs),
        draw=draw_gold_densities,
    )


def draw_gold_densities(table: pa.Table) -> Figure:
    """A panel for each model of a table of DENSITIES, groups one above the other."""
    rows = table.to_pylist()
    models = list(dict.fromkeys(row["model"] for row in rows))
    groups = list(dict.fromkeys(row["gold"] for row in rows))
    figure, axes = panels(len(models), columns=2, height=3.2)
    low, high = min(row["cosine"] for row in rows), max(row["cosine"] for row in rows)
    for axis, model in zip(axes, models, strict=True):
        for level, gold in enumerate(groups):
            own = [row for row in rows if row["model"] == model and row["gold"] == gold]
            at, heights = (np.array([row[name] for row in own]) for name in ("cosine", "density"))
            top = 0.85 * heights / heights.max()
            axis.fill_between(at, level, level + top, color=COLOURS[2], alpha=0.35)
            axis.plot(at, level + top, color=COLOURS[0], linewidth=0.9)
            mass = np.cumsum(heights)
            middle = int(np.searchsorted(mass, mass[-1] / 2))
            axis.plot([at[middle]] * 2, [level, level + top[middle]], color=COLOURS[1])
            axis.annotate(
                str(own[0]["pairs"]), (1.0, level), xytext=(4, 3), textcoords="offset points",
                xycoords=("axes fraction", "data"), fontsize=7, annotation_clip=False,
            )  # fmt: skip
        axis.set_yticks(range(len(groups)), groups)
        axis.set_xlim(low, high)
        end_at(axis, low=0)
        axis.set_title(model, fontsize=8)
        axis.set_xlabel("cosine")
    axes[0].set_ylabel("gold similarity")
    return figure
