"""Pictures of the embeddings of sentence pairs by models.

Densities of the cosines of each model and by gold score, and sentences on a plane: Figure 2 of
DiffCSE, and Figure 2 of D2CSE.
"""

import string
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from harness.data.sts_pairs import Pairs
from harness.errors import TrialFailure
from harness.evaluation.correlation import EQUAL, pair_cosines, unit_rows
from harness.evaluation.geometry import BOUNDARIES, cosines_by_gold
from harness.report.figures.specification import Axis, Figure, Kind, Look, Mark, Panel, axis

POINTS = 400
"""Number of points of the curve of a density"""
SHOWN_CHARACTERS = 30
"""Characters of an example sentence in the caption"""
GROUPS = [f"{low:.0f}-{low + 1:.0f}" for low in BOUNDARIES[:-1]]
"""The groups of gold scores"""
Curve = tuple[np.ndarray, np.ndarray]
"""Cosines in their order, and the density of each, (POINTS,)"""


@dataclass(frozen=True)
class Drawn:
    """A model to draw: its vectors of the first and the second sentences, (pairs, hidden) each."""

    label: str
    first: np.ndarray
    second: np.ndarray

    @property
    def cosines(self) -> np.ndarray:
        """The cosine of each pair, (pairs,)."""
        return pair_cosines(self.first, self.second)


def density(values: np.ndarray) -> Curve:
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


def densities_figure(models: Sequence[Drawn], pairs: Pairs, name: str = "cosines") -> Figure:
    """The densities of the cosines of all models in one frame."""
    curves = [density(model.cosines) for model in models]
    tops = [float(heights.max()) for _, heights in curves]
    panel = Panel(
        _cosine_axis(curves),
        axis("density", [0, *tops], least=0),
        [_mark("line", *curve, look) for look, curve in enumerate(curves)],
        height=3.2,
    )
    return Figure(
        name=name,
        title="Cosines of the STS-B test pairs",
        caption=f"Kernel density of the cosines of {len(pairs)} pairs, one curve for each model. "
        "A cosine is at most 1, so what the kernel puts beyond is folded back.",
        panels=[panel],
        legend=[model.label for model in models],
    )


def _cosine_axis(curves: Iterable[Curve]) -> Axis:
    ends = [float(end) for at, _ in curves for end in (at[0], at[-1])]
    return axis("cosine", ends, least=-1, most=1, margin=0)


def _mark(kind: Kind, x: np.ndarray, y: np.ndarray, look: Look) -> Mark:
    return Mark(kind, x.tolist(), y.tolist(), look)


def gold_figure(models: Sequence[Drawn], pairs: Pairs, name: str = "cosines-by-gold") -> Figure:
    """The densities by gold score: models side by side, groups one above the other."""
    groups = [cosines_by_gold(model.cosines, pairs.gold) for model in models]
    curves = [[density(group.cosines) for group in own] for own in groups]
    x = _cosine_axis(curve for own in curves for curve in own)
    counts = [len(group.cosines) for group in groups[0]]
    return Figure(
        name=name,
        title="Cosines of the STS-B test pairs by gold similarity",
        caption="Kernel densities of the cosines, one for each group of gold scores, each at its "
        "own height; the line in it is its median. Numbers at the right: pairs of the group.",
        panels=[
            _gold_panel(model.label, x, own, counts)
            for model, own in zip(models, curves, strict=True)
        ],
    )


def _gold_panel(model: str, x: Axis, curves: Sequence[Curve], counts: Sequence[int]) -> Panel:
    """curves, counts: of each group of gold scores, the density and the number of pairs."""
    marks: list[Mark] = []
    for level, ((at, heights), count) in enumerate(zip(curves, counts, strict=True)):
        tops = level + 0.85 * heights / heights.max()
        mass = np.cumsum(heights)
        middle = int(np.searchsorted(mass, mass[-1] / 2))
        marks += [
            Mark("area", at.tolist(), tops.tolist(), 2, base=level),
            _mark("line", at, tops, 0),
            Mark("line", [float(at[middle])] * 2, [level, float(tops[middle])], "best"),
            Mark("text", [x.high], [level + 0.12], texts=[str(count)]),
        ]
    y = Axis("gold similarity", 0, len(GROUPS), ticks=list(enumerate(GROUPS)))
    return Panel(x, y, marks, model, height=3.2)


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
    letters: dict[int, str] = {}
    for letter, low in zip(string.ascii_uppercase, BOUNDARIES[:-1], strict=False):
        inside = np.flatnonzero((pairs.gold >= low) & (pairs.gold <= low + 1))
        fresh = [int(pair) for pair in inside if int(pair) not in letters]
        if fresh:
            letters[fresh[0]] = letter
    return letters


def plane_figure(models: Sequence[Drawn], pairs: Pairs, name: str = "projection") -> Figure:
    """The sentences on a plane, with models side by side and a pair of each gold group labelled."""
    words = [
        f"{letter} ({pairs.gold[pair]:.1f}): {_short(pairs.first[pair])} / "
        f"{_short(pairs.second[pair])}"
        for pair, letter in example_pairs(pairs).items()
    ]
    return Figure(
        name=name,
        title="Sentences of STS-B test on a plane",
        caption="Unit vectors on their first two principal components, with the shares of the "
        "variance that these have; dark points are those of pairs with a high gold score. "
        "Examples, each with the gold score of its pair: " + "; ".join(words),
        panels=[_plane_panel(model, pairs) for model in models],
        legend=[f"gold similarity {low:g} to {low + 1:g}" for low in BOUNDARIES[:-1]],
        ordered=True,
    )


def _short(sentence: str) -> str:
    return textwrap.shorten(sentence, SHOWN_CHARACTERS, placeholder="...")


def _plane_panel(model: Drawn, pairs: Pairs) -> Panel:
    places, shares = projected(np.concatenate([model.first, model.second]))
    levels = np.minimum(np.tile(pairs.gold, 2).astype(int), len(GROUPS) - 1)
    marks = [Mark("vertical", [0], [], "pale"), Mark("horizontal", [], [0], "pale")]
    for look in range(len(GROUPS)):
        x, y = places[levels == look].T
        marks.append(_mark("points", x, y, look))
    for pair, letter in example_pairs(pairs).items():
        x, y = places[[pair, pair + len(pairs)]].T
        marks.append(_mark("line", x, y, "best"))
        marks.append(Mark("text", [float(x[0])], [float(y[0])], texts=[letter]))
    across, up = (100 * share for share in shares)
    return Panel(
        axis(f"first component ({across:.0f} % of the variance)", places[:, 0].tolist()),
        axis(f"second component ({up:.0f} %)", places[:, 1].tolist()),
        marks,
        model.label,
        height=3.4,
        equal=True,
    )


def model_figures(name: str, models: list[Drawn], pairs: Pairs) -> list[Figure]:
    """The pictures of a figure of MODEL_FIGURES from the vectors of its models."""
    if name == "diffcse-figure2":
        return [gold_figure(models, pairs, name)]
    return [plane_figure(models, pairs, f"{name}a"), densities_figure(models, pairs, f"{name}b")]
