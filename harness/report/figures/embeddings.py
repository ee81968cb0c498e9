"""Pictures of the embeddings of sentence pairs by models.

Densities of the cosines of each model and by gold score, and sentences on a plane: Figure 2 of
DiffCSE, and Figure 2 of D2CSE.
"""

import string
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from harness.data.sts_pairs import Pairs
from harness.errors import TrialFailure
from harness.evaluation.correlation import EQUAL, pair_cosines, unit_rows
from harness.evaluation.geometry import BOUNDARIES, cosines_by_gold
from harness.report.figures.specification import Axis, Figure, Mark, Panel, Row, axis, mark_of

POINTS = 400
"""Number of points of the curve of a density"""
SHOWN_CHARACTERS = 30
"""Characters of an example sentence in the caption"""


@dataclass(frozen=True)
class Drawn:
    """A model to draw: its vectors of the first and the second sentences, (pairs, hidden) each."""

    label: str
    first: np.ndarray
    second: np.ndarray


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


def model_densities(models: Iterable[Drawn]) -> Sequence[Row]:
    """The density of the cosines of all pairs, for each model."""
    return [
        row
        for model in models
        for row in _rows(model.label, "all", pair_cosines(model.first, model.second))
    ]


def gold_densities(models: Iterable[Drawn], pairs: Pairs) -> Sequence[Row]:
    """The density of the cosines of each group of gold scores, for each model."""
    return [
        row
        for model in models
        for group in cosines_by_gold(pair_cosines(model.first, model.second), pairs.gold)
        for row in _rows(model.label, f"{group.low:.0f}-{group.high:.0f}", group.cosines)
    ]


def _rows(model: str, gold: str, cosines: np.ndarray) -> Iterable[Row]:
    for at, height in zip(*density(cosines), strict=True):
        yield {
            "model": model,
            "gold": gold,
            "pairs": len(cosines),
            "cosine": float(at),
            "density": float(height),
        }


def densities_figure(models: Sequence[Drawn], pairs: Pairs, name: str = "cosines") -> Figure:
    """The densities of all models in one frame."""
    rows = model_densities(models)
    curves = [list(own) for _, own in groupby(rows, key=lambda row: row["model"])]
    panel = Panel(
        _cosine_axis(rows),
        axis("density", [0, *(row["density"] for row in rows)], least=0),
        [mark_of("line", own, "cosine", "density", look) for look, own in enumerate(curves)],
        height=3.2,
    )
    return Figure(
        name=name,
        title="Cosines of the STS-B test pairs",
        caption=f"Kernel density of the cosines of {len(pairs)} pairs, one curve for each model. "
        "A cosine is at most 1, so what the kernel puts beyond is folded back.",
        rows=rows,
        panels=[panel],
        legend=[model.label for model in models],
    )


def _cosine_axis(rows: Sequence[Row]) -> Axis:
    return axis("cosine", [row["cosine"] for row in rows], least=-1, most=1, margin=0)


def gold_figure(models: Sequence[Drawn], pairs: Pairs, name: str = "cosines-by-gold") -> Figure:
    """The densities by gold score: models side by side, groups one above the other."""
    rows = gold_densities(models, pairs)
    return Figure(
        name=name,
        title="Cosines of the STS-B test pairs by gold similarity",
        caption="Kernel densities of the cosines, one for each group of gold scores, each at its "
        "own height; the line in it is its median. Numbers at the right: pairs of the group.",
        rows=rows,
        panels=[_gold_panel(model.label, rows) for model in models],
    )


def _gold_panel(model: str, rows: Sequence[Row]) -> Panel:
    """`rows`: of this model and others."""
    x = _cosine_axis(rows)
    marks: list[Mark] = []
    ticks = []
    own = [row for row in rows if row["model"] == model]
    for level, (gold, of_gold) in enumerate(groupby(own, key=lambda row: row["gold"])):
        group = list(of_gold)
        at = [row["cosine"] for row in group]
        heights = np.array([row["density"] for row in group])
        tops = (level + 0.85 * heights / heights.max()).tolist()
        mass = np.cumsum(heights)
        middle = int(np.searchsorted(mass, mass[-1] / 2))
        ticks.append((level, gold))
        marks += [
            Mark("area", at, tops, 2, base=level),
            Mark("line", at, tops, 0, group),
            Mark("line", [at[middle]] * 2, [level, tops[middle]], "best"),
            Mark("text", [x.high], [level + 0.12], texts=[str(group[0]["pairs"])]),
        ]
    y = Axis("gold similarity", 0, len(ticks), ticks=ticks)
    return Panel(x, y, marks, model, height=3.2)


def plane(models: Sequence[Drawn], pairs: Pairs) -> Sequence[Row]:
    """The place of every sentence for each model, with the gold score of its pair.

    `example` is the letter of a pair that is labelled; the shares are those of the variance, 0 to
    1, of all sentences of the model.
    """
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
    return rows


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
    """The plane, with models side by side and a pair of each gold group labelled."""
    words = [
        f"{letter} ({pairs.gold[pair]:.1f}): {_short(pairs.first[pair])} / "
        f"{_short(pairs.second[pair])}"
        for pair, letter in example_pairs(pairs).items()
    ]
    rows = plane(models, pairs)
    return Figure(
        name=name,
        title="Sentences of STS-B test on a plane",
        caption="Unit vectors on their first two principal components, with the shares of the "
        "variance that these have; dark points are those of pairs with a high gold score. "
        "Examples, each with the gold score of its pair: " + "; ".join(words),
        rows=rows,
        panels=[_plane_panel(model.label, rows) for model in models],
        legend=[f"gold similarity {low:g} to {low + 1:g}" for low in BOUNDARIES[:-1]],
        ordered=True,
    )


def _short(sentence: str) -> str:
    return textwrap.shorten(sentence, SHOWN_CHARACTERS, placeholder="...")


def _plane_panel(model: str, rows: Sequence[Row]) -> Panel:
    """`rows`: of this model and others."""
    own = [row for row in rows if row["model"] == model]
    marks = [Mark("vertical", [0], [], "pale"), Mark("horizontal", [], [0], "pale")]
    for look, low in enumerate(BOUNDARIES[:-1]):
        group = [row for row in own if min(int(row["gold"]), len(BOUNDARIES) - 2) == low]
        marks.append(mark_of("points", group, "x", "y", look))
    for letter in sorted({row["example"] for row in own} - {None}):
        ends = mark_of("line", [row for row in own if row["example"] == letter], "x", "y", "best")
        marks += [ends, Mark("text", ends.x[:1], ends.y[:1], texts=[letter])]
    across, up = (100 * own[0][f"{name}_share"] for name in ("x", "y"))
    return Panel(
        axis(f"first component ({across:.0f} % of the variance)", [row["x"] for row in own]),
        axis(f"second component ({up:.0f} %)", [row["y"] for row in own]),
        marks,
        model,
        height=3.4,
        equal=True,
    )


def model_figures(name: str, models: list[Drawn], pairs: Pairs) -> list[Figure]:
    """The pictures of a figure of MODEL_FIGURES from the vectors of its models."""
    if name == "diffcse-figure2":
        return [gold_figure(models, pairs, name)]
    return [plane_figure(models, pairs, f"{name}a"), densities_figure(models, pairs, f"{name}b")]
