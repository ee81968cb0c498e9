"""The figures of embeddings: densities end where cosines end; the plane has gold and sentences."""

import numpy as np
import pytest
from scipy.stats import gaussian_kde

from harness.data.sts_pairs import Pairs
from harness.errors import TrialFailure
from harness.report.figures import embeddings
from harness.report.figures.printing import draw

COUNT = 60


@pytest.fixture
def pairs() -> Pairs:
    gold = np.tile([0.5, 1.5, 2.5, 3.5, 5.0], COUNT // 5)
    sentences = [f"sentence {number}" for number in range(COUNT)]
    return Pairs(sentences, [f"other {number}" for number in range(COUNT)], gold)


@pytest.fixture
def model() -> embeddings.Drawn:
    """A model whose pairs have cosines near 1."""
    generator = np.random.default_rng(0)
    first = generator.normal(size=(COUNT, 5)) + 4
    return embeddings.Drawn("model", first, first + 0.1 * generator.normal(size=(COUNT, 5)))


def test_a_density_ends_where_cosines_end_and_keeps_its_mass() -> None:
    random = np.random.default_rng(0)
    values = 1 - random.exponential(0.02, 500)
    at, height = embeddings.density(values)
    assert at.max() == 1.0
    assert np.trapezoid(height, at) == pytest.approx(1, abs=2e-3)
    plain = gaussian_kde(values)
    assert plain.integrate_box_1d(1, 2) > 0.05, "a plain kernel puts mass where no cosine is"
    middle = len(at) // 4
    assert height[middle] == pytest.approx(plain(at[middle])[0], rel=1e-6), "far from the end"
    at, height = embeddings.density(random.uniform(-1, 1, 2000))
    assert (at.min(), at.max()) == (-1.0, 1.0)
    assert height == pytest.approx(np.full(len(at), 0.5), abs=0.1), "uniform up to both ends"
    with pytest.raises(TrialFailure, match="the embedding is constant"):
        embeddings.density(np.ones(5))


def test_the_axes_of_cosines_end_at_one(model: embeddings.Drawn, pairs: Pairs) -> None:
    axis, *_ = draw(embeddings.densities_figure([model], pairs)).axes
    assert axis.get_xlim()[1] == 1.0
    figure = embeddings.gold_figure([model], pairs)
    [panel] = figure.panels
    assert panel.y.ticks == [*enumerate(["0-1", "1-2", "2-3", "3-4", "4-5"])]
    assert [mark.texts for mark in panel.marks if mark.texts] == [[str(COUNT // 5)]] * 5
    for axes in draw(figure).axes:
        assert axes.get_xlim()[1] <= 1.0


def test_the_plane_has_every_sentence_with_the_gold_of_its_pair(
    model: embeddings.Drawn, pairs: Pairs
) -> None:
    figure = embeddings.plane_figure([model], pairs)
    places, _ = embeddings.projected(np.concatenate([model.first, model.second]))
    marks = figure.panels[0].marks
    for look, points in enumerate(mark for mark in marks if mark.kind == "points"):
        own = [place for place in range(2 * COUNT) if place % 5 == look]  # as `pairs` has its gold
        assert np.array_equal(np.array([points.x, points.y]).T, places[own])
    assert [text for mark in marks for text in mark.texts] == ["A", "B", "C", "D", "E"]
    joined = [mark.x for mark in marks if mark.kind == "line"]
    assert joined == [places[[pair, pair + COUNT], 0].tolist() for pair in range(5)]
    assert "A (0.5): sentence 0 / other 0" in figure.caption


def test_the_components_are_those_of_a_singular_value_decomposition() -> None:
    vectors = np.random.default_rng(1).normal(size=(50, 6)) * np.arange(1, 7)
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    left, values, _ = np.linalg.svd(units - units.mean(axis=0))
    places, shares = embeddings.projected(vectors)
    assert np.abs(places) == pytest.approx(np.abs(left[:, :2] * values[:2]))
    assert shares == pytest.approx((values[:2] ** 2 / (values**2).sum()).tolist())


def test_a_group_without_pairs_has_no_example() -> None:
    assert embeddings.example_pairs(Pairs(["a", "b"], ["c", "d"], np.array([2.5, 2.6]))) == {0: "C"}
