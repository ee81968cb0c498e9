"""Resolution of a number of seeds: simulated experiments, and with a store's deviation."""

import math
from collections.abc import Callable
from pathlib import Path
from statistics import variance
from typing import Any

import pytest
from scipy import stats

from harness import PROTOCOL
from harness.sweeps.scored import TYPICAL, resolution, smallest_difference
from harness.sweeps.spaces.search import Search
from harness.trials.store import Store
from tests.trials.test_store import record

SPACE = """\
setting: unsup
suite: graded
select: {metric: graded-dev}
final: {seeds: [0, 1, 2]}
encoders: [tiny-bert]
methods:
  simcse:
"""


def test_a_t_test_finds_the_difference_in_80_of_100_experiments() -> None:
    for repeats in (*range(2, 14), 20, 64, 1000):
        freedom = 2 * (repeats - 1)
        critical = stats.t.ppf(0.975, freedom)
        errors = smallest_difference(2.0, repeats) / (2.0 * math.sqrt(2 / repeats))
        assert stats.nct.sf(critical, freedom, errors) == pytest.approx(0.8, abs=0.002)
    # Cohen's tables: 64 in each group find half a standard deviation.
    assert smallest_difference(1.0, 64) == pytest.approx(0.5, abs=0.005)


Plan = Callable[..., list[Search]]


@pytest.fixture
def plan(searches_of: Plan) -> Plan:
    """plan(old, new): the searches of the space above, with one text replaced."""
    return lambda old="", new="": searches_of(SPACE.replace(old, new) if old else SPACE)


def write(store: Store, key: int, score: float, **values: Any) -> None:
    """Write a final trial of SimCSE with this test score."""
    usual = {"configuration": {"learning_rate": 1e-4, "label_fraction": 1.0, "subset": 0}}
    test = {"suite": "graded", "test": {"graded": score}, "protocol": PROTOCOL}
    store.write(record(key, **usual | test | values))


def test_without_a_store_the_deviation_is_a_typical_one(plan: Plan, tmp_path: Path) -> None:
    """A single seed resolves nothing."""
    typical = resolution(plan(), Store(tmp_path))
    assert (typical.std, typical.groups, typical.repeats) == (TYPICAL, 0, 3)
    assert typical.metric == "graded"
    assert typical.difference == smallest_difference(TYPICAL, 3)
    assert resolution(plan("[0, 1, 2]", "[0]"), Store(tmp_path)) is None
    assert resolution(plan("simcse", "pooling"), Store(tmp_path)) is None


def test_the_deviation_is_pooled_over_the_groups_of_the_store(plan: Plan, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    one, other = [40.0, 42.0, 41.5], [50.0, 53.0]
    for seed, score in enumerate(one):
        write(store, seed, score)
    for seed, score in enumerate(other, start=10):
        write(store, seed, score, configuration={"learning_rate": 1e-5})
    write(store, 20, 10.0, method="esimcse")
    write(store, 21, 10.0, role="search")
    pooled = resolution(plan(), store)
    assert pooled.groups == 2
    assert pooled.std == pytest.approx(math.sqrt((2 * variance(one) + variance(other)) / 3))
    # Of several label subsets, the means over seeds count.
    store = Store(tmp_path / "subsets")
    scores = [(0, 40.0), (0, 44.0), (1, 45.0), (1, 47.0), (2, 41.0), (2, 41.0)]
    for key, (subset, score) in enumerate(scores):
        write(store, key, score, configuration={"label_fraction": 0.1, "subset": subset})
    std = resolution(plan(), store).std
    assert std == pytest.approx(math.sqrt(variance([42.0, 46.0, 41.0])))
