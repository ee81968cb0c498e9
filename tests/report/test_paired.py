"""Two checkpoints of one seed each: a paired bootstrap, where their embeddings are kept."""

import math
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from harness.evaluation.comparison import differences
from harness.evaluation.kept_embeddings import KeptEmbeddings
from harness.evaluation.suites import suite
from harness.files import cache_folder
from harness.report.statistics import paired
from harness.report.stores.store_tables import store_sheets
from harness.trials.store import Store

AddTrial = Callable[..., str]

BY_GRADED = {
    "configuration": {"suite": "graded"},
    "suite": "graded",
    "selected_by": "graded-dev",
    "dev": {"graded-dev": 60.0},
    "steps": 100,
}


@pytest.fixture
def keep(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """keep(key, noise, weights): embeddings of the graded pairs; with more noise they are worse."""
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    measured = suite("graded")
    texts = list(chain.from_iterable(measured.load(test).texts for test in measured.tests))
    plain = np.random.default_rng(0).normal(size=(len(texts), 16)).astype(np.float32)

    def keep(key: str, noise: float, weights: str = "0" * 16) -> None:
        pairs = measured.load(measured.tests[0])
        vectors = dict(zip(texts, plain, strict=True))
        random = np.random.default_rng(int(key, 16))
        for first, second, gold in zip(pairs.first, pairs.second, pairs.gold, strict=True):
            far = (5 - gold) / 5 + noise * random.random()
            vectors[second] = vectors[first] + far * vectors[second]
        folder = cache_folder() / "embeddings" / key / weights / "test"
        folder.mkdir(parents=True)
        written = KeptEmbeddings(
            folder, lambda asked, **_: np.stack([vectors[text] for text in asked]), write=True
        )
        written(list(vectors))

    return keep


def best_methods(store: Store) -> set[str]:
    (sheet,) = store_sheets(store.read(), store.folder)
    return {row.names[0] for row in sheet.score_rows if row.cells[-1].best}


def test_what_is_not_significantly_worse_is_bold(
    store: Store, add_trial: AddTrial, keep: Callable[[str, float], None]
) -> None:
    keys = {
        method: add_trial(method=method, test={"graded": score}, **BY_GRADED)
        for method, score in (("simcse", 80.0), ("diffcse", 79.9), ("d2cse", 30.0))
    }
    assert best_methods(store) == {"simcse"}, "without embeddings nothing is known"
    keep(keys["simcse"], 0.1)
    keep(keys["diffcse"], 0.1)
    keep(keys["d2cse"], 9.0)
    paired._p_values.cache_clear()
    paired._p_values.cache_clear()
    assert best_methods(store) == {"simcse", "diffcse"}


def test_vectors_of_two_weights_of_a_trial_are_not_compared(keep: Callable[..., None]) -> None:
    """Nobody knows which of them the scores of the table are of."""
    one, other = "1" * 32, "2" * 32
    keep(one, 0.1)
    keep(other, 0.2)
    paired._p_values.cache_clear()
    assert 0 <= paired.paired_p_value("graded", one, other, "graded") <= 1
    keep(other, 0.2, "1" * 16)
    assert math.isnan(paired.paired_p_value("graded", one, other, "graded"))


def test_the_p_value_is_that_of_harness_compare(keep: Callable[[str, float], None]) -> None:
    first, second = "a" * 32, "b" * 32
    keep(first, 0.2)
    keep(second, 1.0)
    embeds = [paired._kept(key) for key in (first, second)]
    _, _, expected = differences(suite("graded"), *embeds)["graded"]
    assert paired.paired_p_value("graded", first, second, "graded") == expected.p_value
    assert paired.paired_p_value("graded", second, first, "graded") == expected.p_value


def test_what_cannot_be_compared_has_no_p_value(keep: Callable[[str, float], None]) -> None:
    keep("c" * 32, 0.2)
    for name, other in (("graded", "d" * 32), ("retrieval", "c" * 32)):
        assert np.isnan(paired.paired_p_value(name, "c" * 32, other, "graded"))
