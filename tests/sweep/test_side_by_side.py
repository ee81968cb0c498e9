"""Searches of several methods go on side by side, each as if it were alone."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.trials.record import Record
from harness.trials.store import Store
from tests.sweeping import write_few_pairs

pytestmark = pytest.mark.slow

SPACE = """\
suite: FEW
select: {metric: few-dev}
final: {seeds: [0, 1]}
encoders: [tiny-bert]
set: {sentences: graded-sentences, max_steps: 1, batch_size: 8, precision: fp32}
methods:
  short:
    ranges: {learning_rate: {low: 1.0e-3, high: 1.0e-1, log: true}}
    sampler: {name: random, configurations: 2}
  long:
    ranges: {learning_rate: {low: 1.0e-3, high: 1.0e-1, log: true}}
    sampler: {name: random, configurations: 5}
"""
ENDED = re.compile(r"^\[(\d+)/(\d+)\] (\w+) .* seed (\d+): dev", re.MULTILINE)
"""The line about the end of a trial: how many have ended, of how many, its method and its seed"""
Sweep = Callable[..., tuple[str, list[Record]]]


@pytest.fixture(scope="module")
def sweep(
    tmp_path_factory: pytest.TempPathFactory,
    write_plugin: Callable[..., Path],
    serially: Callable[..., Any],
) -> Sweep:
    """sweep(store, method, ...): what the sweep printed, and the records of its store."""
    folder = tmp_path_factory.mktemp("sweep")
    plugins = {name: write_plugin(folder / f"{name}.py", "trained") for name in ("short", "long")}
    space = folder / "space.yaml"
    space.write_text(SPACE.replace("FEW", str(write_few_pairs(folder))), encoding="utf-8")

    def call(store: str, *methods: str) -> tuple[str, list[Record]]:
        words = [plugins[name] for name in methods]
        answer = serially(*words, space, "--store", folder / store)
        assert answer.code == 0, answer.out + answer.err
        return answer.out, Store(folder / store).read().records()

    return call


@pytest.fixture(scope="module")
def both(sweep: Sweep) -> tuple[str, list[Record]]:
    return sweep("both", "short", "long")


def rates(records: list[Record], method: str) -> list[float]:
    """The learning rates that a search has tried, in the order of time."""
    found = [each for each in records if (each.method, each.role) == (method, "search")]
    found.sort(key=lambda record: record.started)
    return [record.configuration["learning_rate"] for record in found]


def test_the_finals_of_a_decided_search_run_while_another_one_samples(
    both: tuple[str, list[Record]],
) -> None:
    """One trial runs at a time, so that the order is known."""
    ended = ENDED.findall(both[0])
    assert [(method, seed) for _, _, method, seed in ended] == [
        ("short", "42"), ("long", "42"), ("short", "42"), ("long", "42"),
        ("short", "0"), ("long", "42"), ("short", "1"), ("long", "42"),
        ("long", "42"), ("long", "0"), ("long", "1"),
    ]  # fmt: skip
    assert [int(done) for done, *_ in ended] == list(range(1, 12))
    assert [int(of) for _, of, *_ in ended] == [7, 7, 7, 9, 9, 9, 9, 9, 9, 11, 11]
    out = both[0]
    chosen = [out.index(f"chosen for {name} unsup") for name in ("short", "long")]
    finals = [found.start() for found in re.finditer("final seeds: 2 to run", out)]
    assert chosen[0] < finals[0] < chosen[1] < finals[1]


def test_a_search_suggests_the_same_whatever_runs_beside_it(
    both: tuple[str, list[Record]], sweep: Sweep
) -> None:
    _, alone = sweep("alone", "long")
    assert rates(alone, "long") == rates(both[1], "long")
    assert len(set(rates(alone, "long"))) == 5


def test_each_search_has_random_numbers_of_its_own(both: tuple[str, list[Record]]) -> None:
    _, records = both
    assert not set(rates(records, "short")) & set(rates(records, "long"))


def test_the_same_sweep_again_runs_nothing(both: tuple[str, list[Record]], sweep: Sweep) -> None:
    out, records = sweep("both", "short", "long")
    assert len(records) == len(both[1]) == 11
    assert "search, random on long unsup tiny-bert: 0 to run, 5 already in the store" in out
    assert "final seeds: 0 to run, 4 already in the store" in out
    assert not ENDED.search(out)
