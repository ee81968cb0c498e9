"""Two trials of one seed each: a paired bootstrap, where the store keeps their cosines."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from harness.evaluation.correlation import correlation
from harness.evaluation.kept import keep_pairs, kept_pairs
from harness.evaluation.scores import Queries
from harness.report.difference import paired_p_value
from harness.trials.store_folders import pairs_file
from tests.report.conftest import MadeStore

Keep = Callable[..., float]

BY_GRADED = {
    "configuration": {"suite": "graded"}, "suite": "graded", "selected_by": "graded-dev",
    "dev": {"graded-dev": 60.0}, "steps": 100,
}  # fmt: skip

HARD = np.random.default_rng(0).normal(size=200)
"""Difficulty that makes a pair hard for every model"""


@pytest.fixture
def keep(store: MadeStore) -> Keep:
    """keep(key, noise): the cosines of made-up pairs beside the store; their Spearman x100."""
    gold = np.linspace(0, 5, 200)

    def keep(key: str, noise: float, gold: np.ndarray = gold) -> float:
        random = np.random.default_rng(int(key, 16))
        cosines = gold / 5 + noise * (HARD[: len(gold)] + 0.3 * random.normal(size=len(gold)))
        keep_pairs({"graded": np.stack([cosines, gold])}, pairs_file(store.weights(key), "graded"))
        return correlation(cosines, gold).spearman

    return keep


def best_methods(store: MadeStore) -> set[str]:
    (sheet,) = store.sheets()
    return {row.names[0] for row in sheet.rows if row.cells[-1].best}


@pytest.mark.parametrize("steps", [100, 0], ids=["single seeds", "nothing is trained"])
def test_what_is_not_significantly_worse_is_bold(store: MadeStore, keep: Keep, steps: int) -> None:
    for number, (method, noise) in enumerate((("simcse", 0.4), ("diffcse", 0.5), ("d2cse", 9.0))):
        key = f"{number:032x}"
        scores = {"graded": keep(key, noise)}
        store.trial(method=method, test=scores, **BY_GRADED | {"steps": steps})
        pairs_file(store.weights(key), "graded").rename(store.folder.parent / key)
    assert best_methods(store) == {"diffcse"}, "without cosines nothing is known"
    for number in range(3):
        key = f"{number:032x}"
        (store.folder.parent / key).rename(pairs_file(store.weights(key), "graded"))
    assert best_methods(store) == {"simcse", "diffcse"}


def test_two_seeds_are_compared_by_the_queries_of_a_retrieval(store: MadeStore) -> None:
    """A folder of the user's own is no suite that harness knows by its name."""
    hard = np.random.default_rng(3).random(50)
    figures = {"simcse": hard, "diffcse": hard[::-1].copy(), "d2cse": hard * 0.5}
    for number, (method, values) in enumerate(figures.items()):
        key, score = f"{number:032x}", 100 * float(values.mean())
        store.trial(
            {"suite": "faq"}, method=method, suite="faq", selected_by="faq-dev", steps=100,
            dev={"faq-dev": 60.0}, test={"ndcg@10": score},
        )  # fmt: skip
        queries = {"ndcg@10": Queries(values, np.arange(50))}
        keep_pairs(queries, pairs_file(store.weights(key), "faq"))
    assert best_methods(store) == {"simcse", "diffcse"}


@pytest.mark.slow
def test_the_p_value_counts_the_resamples_as_far_as_the_difference(
    store: MadeStore, keep: Keep
) -> None:
    """Against a plain loop in which scipy ranks each resample; both are random."""
    first, second = "a" * 32, "b" * 32
    scores = [(key, {"graded": keep(key, noise)}) for key, noise in ((first, 0.5), (second, 0.6))]
    p_value = paired_p_value(store.folder, "graded", scores, "graded")
    assert paired_p_value(store.folder, "graded", scores[::-1], "graded") == pytest.approx(p_value)
    kept = [kept_pairs(pairs_file(store.weights(key), "graded"))["graded"] for key, _ in scores]
    random, differences = np.random.default_rng(1), []
    for _ in range(200):
        drawn = random.integers(0, 200, 200)
        one, two = (correlation(*each[:, drawn]).spearman for each in kept)
        differences.append(one - two)
    observed = scores[0][1]["graded"] - scores[1][1]["graded"]
    expected = np.mean(np.abs(np.asarray(differences) - observed) >= abs(observed))
    assert p_value == pytest.approx(float(expected), abs=0.08)


def test_what_cannot_be_compared_has_no_p_value(store: MadeStore, keep: Keep) -> None:
    """Nothing kept, another score, suite, or gold scores, too few pairs, and a damaged file."""
    one, other = ("c" * 32, keep("c" * 32, 0.2)), ("d" * 32, 50.0)

    def p(suite: str = "graded", first: tuple[str, float] = one) -> float:
        models = [(key, {"graded": score}) for key, score in (first, other)]
        return paired_p_value(store.folder, suite, models, "graded")

    assert math.isnan(p())
    other = "d" * 32, keep("d" * 32, 0.3)
    assert p() < 1
    other = "d" * 32, other[1] - 1
    assert math.isnan(p()), "the pairs of another table, or of other weights"
    other = "e" * 32, keep("e" * 32, 0.3, np.linspace(0, 4, 200))
    assert math.isnan(p()), "other gold scores"
    assert math.isnan(p("retrieval"))
    few = np.array([0.0, 1.0, 3.0, 5.0])
    one = "1" * 32, keep("1" * 32, 0.1, few)
    other = "2" * 32, keep("2" * 32, 0.1, few)
    assert math.isnan(p(first=one)), "4 pairs"
    pairs_file(store.weights("2" * 32), "graded").write_bytes(b"no Parquet")
    other = "2" * 32, 51.0
    one = "3" * 32, keep("3" * 32, 0.1)
    assert math.isnan(p(first=one))
