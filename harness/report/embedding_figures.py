"""Pictures of embeddings on STS-B test, with models side by side.

They are those of Figure 2 of DiffCSE and of Figure 2 of D2CSE.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import gaussian_kde

from harness.data.sts_pairs import Pairs
from harness.errors import TrialFailure
from harness.evaluation.correlation import EQUAL
from harness.evaluation.cosines import pair_cosines, unit_rows
from harness.evaluation.geometry import cosines_by_gold

POINTS = 400
"""Number of points of the curve of a density"""


@dataclass(frozen=True)
class Drawn:
    """A model to draw: its vectors of the first and the second sentences, (pairs, hidden) each."""

    label: str
    first: np.ndarray
    second: np.ndarray


def draw_pictures(models: Sequence[Drawn], pairs: Pairs, folder: Path) -> list[Path]:
    """Write the three pictures into `folder`, and return their paths.

    Raises TrialFailure for embeddings that are constant, which have no density.
    """
    made = {
        "cosines-by-gold.png": _side_by_side(models, pairs, _by_gold, shared=True),
        "cosines.png": _densities(models),
        "projection.png": _side_by_side(models, pairs, _projection),
    }
    for name, figure in made.items():
        figure.savefig(folder / name, dpi=150)
    return [folder / name for name in made]


def _side_by_side(
    models: Sequence[Drawn],
    pairs: Pairs,
    panel: Callable[[Axes, Drawn, Pairs], None],
    *,
    shared: bool = False,
) -> Figure:
    # A Figure without pyplot needs no display.
    figure = Figure(figsize=(5 * len(models), 4), layout="constrained")
    axes = figure.subplots(1, len(models), squeeze=False, sharex=shared)[0]
    for axis, model in zip(axes, models, strict=True):
        panel(axis, model, pairs)
        axis.set_title(model.label, fontsize="small")
    return figure


def _by_gold(axis: Axes, model: Drawn, pairs: Pairs) -> None:
    """Draw the density of the cosines for each group of gold scores, one above the other."""
    groups = cosines_by_gold(pair_cosines(model.first, model.second), pairs.gold)
    for level, group in enumerate(groups):
        at, height = _density(group.cosines)
        axis.fill_between(at, level, level + 0.9 * height / height.max(), alpha=0.7)
    axis.set_yticks(range(len(groups)), [f"{group.low:.0f}-{group.high:.0f}" for group in groups])
    axis.set_xlabel("cosine")
    axis.set_ylabel("gold similarity")


def _densities(models: Sequence[Drawn]) -> Figure:
    """Draw the densities of the cosines of all models in one frame."""
    figure = Figure(figsize=(6, 4), layout="constrained")
    axis = figure.subplots()
    for model in models:
        axis.plot(*_density(pair_cosines(model.first, model.second)), label=model.label)
    axis.set_xlabel("cosine of the STS-B test pairs")
    axis.set_ylabel("density")
    axis.legend(fontsize="small")
    return figure


def _projection(axis: Axes, model: Drawn, _pairs: Pairs) -> None:
    """Draw the unit vectors of all sentences on their first two principal components."""
    units = unit_rows(np.concatenate([model.first, model.second]))
    centred = units - units.mean(axis=0)
    _, directions = np.linalg.eigh(centred.T @ centred)
    plane = centred @ directions[:, :-3:-1]  # eigh sorts the largest eigenvalues to the end
    axis.scatter(plane[:, 0], plane[:, 1], s=3, alpha=0.4)
    axis.set_aspect("equal", "datalim")
    axis.set_xlabel("first component")
    axis.set_ylabel("second component")


def _density(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points on the axis, and the density of the values at these points.

    Raises TrialFailure when all values are the same.
    """
    if len(values) < 2 or np.ptp(values) <= EQUAL:
        raise TrialFailure(
            "there is no density to draw: sentence pairs have the same cosine, so the embedding is "
            "constant"
        )
    margin = 0.1 * np.ptp(values)
    at = np.linspace(values.min() - margin, values.max() + margin, POINTS)
    return at, gaussian_kde(values)(at)
