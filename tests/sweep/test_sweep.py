"""A sweep runs every trial of its space once, selects on dev, and goes on where it stopped."""

import os
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.errors import headline
from harness.trials.record import Record
from harness.trials.run import attempt
from harness.trials.store import Store
from harness.trials.trial import Trial
from tests.sweeping import ONE_AT_A_TIME

pytestmark = pytest.mark.slow

HEAD = """\
setting: unsup
suite: graded
select: {metric: graded-dev}
search: {seeds: [42, 43]}
final: {seeds: [0, 1]}
encoders: [tiny-bert]
set: {sentences: graded-sentences, max_steps: 2, batch_size: 8, precision: fp32}
methods:
"""
SPACE = (
    HEAD
    + """\
  chosen:
    grid:
      favours: [test, dev]
      noise: [0.25, 0.5]
  rounded:
    rounds:
      - noise: [0.0, 0.4, 0.8]
      - noise: {between: best_two, step: 0.2}
      - favours: [test, both]
  varied:
    variants:
      near: {noise: 0.25}
      far: {noise: 0.5}
    grid:
      favours: [test, dev]
  sampled:
    ranges:
      learning_rate: {low: 1.0e-3, high: 1.0e-1, log: true}
      width: {low: 4, high: 16, step: 4}
    sampler: {configurations: 3}
"""
)
METHODS = ["chosen", "rounded", "varied", "sampled"]
FAULTY = HEAD + "  faulty: {grid: {fault: [raise, none, no fault]}}"


@dataclass
class Swept:
    """What a sweep printed and stored."""

    answer: Any
    rows: list[Record]
    written: dict[str, int]
    """File -> when"""

    def of(self, method: str, role: str) -> list[Record]:
        """The rows of one method in one role."""
        return [row for row in self.rows if (row.method, row.role) == (method, role)]

    def values(self, method: str, *names: str) -> Counter[tuple[Any, ...]]:
        """The values of these hyperparameters -> how many search trials have them."""
        return Counter(
            tuple(row.configuration[name] for name in names) for row in self.of(method, "search")
        )


Sweep = Callable[..., Swept]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, write_plugin: Callable[..., Path]) -> Path:
    """The folder of the plugins, their search spaces and stores."""
    folder = tmp_path_factory.mktemp("sweeps")
    for name in ("chosen", "rounded", "varied"):
        write_plugin(folder / f"{name}.py", "known")
    for name in ("sampled", "faulty"):
        write_plugin(folder / f"{name}.py", "trained")
    return folder


@pytest.fixture(scope="module")
def sweep(folder: Path, process: Callable[..., Any]) -> Sweep:
    """sweep(methods, space, store name, option, ...): run a sweep on Ray and read its store."""
    return _sweep(folder, lambda *words: process("sweep", "--no-local", *words, *ONE_AT_A_TIME))


@pytest.fixture(scope="module")
def serial_sweep(folder: Path, serially: Callable[..., Any]) -> Sweep:
    """The same in this process."""
    return _sweep(folder, serially)


def _sweep(folder: Path, run: Callable[..., Any]) -> Sweep:
    def call(methods: list[str], text: str, store: str, *options: str) -> Swept:
        space = folder / "space.yaml"
        space.write_text(text, encoding="utf-8")
        plugins = [folder / f"{name}.py" for name in methods]
        answer = run(*plugins, space, "--store", folder / store, *options)
        written = {
            path.name: path.stat().st_mtime_ns for path in (folder / store).glob("*.parquet")
        }
        return Swept(answer, Store(folder / store).read().records(), written)

    return call


# Searches that go well


@pytest.fixture(scope="module")
def first(sweep: Sweep) -> Swept:
    """A sweep with a grid, rounds, variants and a sampler."""
    return sweep(METHODS, SPACE, "store")


@pytest.fixture(scope="module")
def second(first: Swept, serial_sweep: Sweep) -> Swept:
    """The same sweep again, with a higher budget for the sampler."""
    assert first.written
    more = SPACE.replace("configurations: 3", "configurations: 5")
    return serial_sweep(METHODS, more, "store")


# More than 20 s: the sweep has three methods, a search and final seeds, and a Ray.
def test_sweep_succeeds(first: Swept) -> None:
    assert first.answer.code == 0, first.answer.out + first.answer.err
    assert first.answer.err == ""
    assert {row.status for row in first.rows} == {"finished"}
    assert {f"{row.key}.parquet" for row in first.rows} == set(first.written)
    assert len(first.written) == len(first.rows)
    # At the niceness that Ray gives workers they would starve beside any other work.
    points = [point for row in first.rows for point in row.history]
    niceness = {point["value"] for point in points if point["metric"] == "niceness"}
    assert niceness == {os.getpriority(os.PRIO_PROCESS, 0)}


def test_grid_runs_every_combination_once(first: Swept) -> None:
    """It runs on one seed, since nothing trains."""
    combinations = {(favours, noise): 1 for favours in ("test", "dev") for noise in (0.25, 0.5)}
    assert first.values("chosen", "favours", "noise") == combinations


def test_best_on_dev_wins_though_another_is_better_on_test(first: Swept, folder: Path) -> None:
    [final] = first.of("chosen", "final")
    assert (final.configuration["favours"], final.configuration["noise"]) == ("dev", 0.25)
    dev = [row.dev["graded-dev"] for row in first.of("chosen", "search")]
    assert final.dev["graded-dev"] == max(dev)
    said = "chosen for chosen unsup tiny-bert: favours=dev noise=0.25 (graded-dev "
    assert said in first.answer.out
    other = {**final.configuration, "favours": "test"}
    record = attempt(Trial(str(folder / "chosen.py"), other, 0), lambda _: None)
    assert record.test["graded"] > final.test["graded"]
    assert record.dev["graded-dev"] < final.dev["graded-dev"]


def test_search_never_sees_a_test_score(first: Swept) -> None:
    for row in first.rows:
        assert set(row.test) == ({"graded"} if row.role == "final" else set())
        assert set(row.dev) == {"graded-dev"}
        assert row.dev_before is not None


def test_rounds_start_from_the_best_so_far(first: Swept) -> None:
    """The second round lies between the best two of the first, and a configuration runs once.

    The best two of the first round are 0.4 and 0.0; after that, 0.2 is best.
    """
    searched = [("both", noise) for noise in (0.0, 0.4, 0.8, 0.2)] + [("test", 0.2)]
    assert first.values("rounded", "favours", "noise") == Counter(searched)
    [final] = first.of("rounded", "final")
    assert (final.configuration["favours"], final.configuration["noise"]) == ("both", 0.2)


def test_every_variant_is_searched_and_gets_the_final_seeds(first: Swept) -> None:
    grid = {(noise, favours): 1 for noise in (0.25, 0.5) for favours in ("test", "dev")}
    assert first.values("varied", "noise", "favours") == grid
    final = [row.configuration for row in first.of("varied", "final")]
    assert {(each["noise"], each["favours"]) for each in final} == {(0.25, "dev"), (0.5, "dev")}
    for variant in ("near", "far"):
        name = f"varied unsup tiny-bert ({variant})"
        assert f"chosen for {name}: favours=dev (graded-dev " in first.answer.out
        assert re.search(rf"\] {re.escape(name)} .*seed 0: dev ", first.answer.out)


def test_sampler_spends_its_budget(first: Swept) -> None:
    """There are three configurations, each on both search seeds; the best mean is chosen."""
    searched = first.values("sampled", "learning_rate", "width")
    assert sorted(searched.values()) == [2, 2, 2]
    for rate, width in searched:
        assert 1e-3 <= rate <= 1e-1
        assert width in (4, 8, 12, 16)
    assert {row.seed for row in first.of("sampled", "search")} == {42, 43}
    scores: dict[float, list[float]] = {}
    for row in first.of("sampled", "search"):
        scores.setdefault(row.configuration["learning_rate"], []).append(row.dev["graded-dev"])
    best = max(scores, key=lambda rate: sum(scores[rate]))
    assert {row.configuration["learning_rate"] for row in first.of("sampled", "final")} == {best}
    assert sorted(row.seed for row in first.of("sampled", "final")) == [0, 1]
    assert [row.seed for row in first.of("chosen", "final")] == [0]  # nothing trains


def test_higher_budget_runs_only_the_difference(first: Swept, second: Swept) -> None:
    """Each configuration is a trial for each of the two search seeds."""
    before, after = (each.values("sampled", "learning_rate", "width") for each in (first, second))
    assert before < after
    assert second.answer.code == 0, second.answer.out + second.answer.err
    assert sorted(after.values()) == [2] * 5
    said = "search, tpe on sampled unsup tiny-bert: 4 to run, 6 already in the store"
    assert said in second.answer.out


def test_same_sweep_again_runs_nothing_else(first: Swept, second: Swept) -> None:
    assert {name: second.written[name] for name in first.written} == first.written
    assert {row.method for row in second.rows if f"{row.key}.parquet" not in first.written} == {
        "sampled"
    }
    for number in (1, 2, 3):
        assert f"search, round {number}: 0 to run" in second.answer.out


# Trials that fail


def fault_rows(swept: Swept) -> dict[str, Record]:
    return {row.configuration["fault"]: row for row in swept.of("faulty", "search")}


def test_failed_trials_are_tried_again(folder: Path, serial_sweep: Sweep) -> None:
    """tests/faults has faults that end their worker."""
    text = FAULTY.replace("[42, 43]", "[42]")
    faulty = serial_sweep(["faulty"], text, "faulty")
    rows = fault_rows(faulty)
    assert {fault: row.status for fault, row in rows.items()} == {
        "raise": "failed", "none": "finished", "no fault": "finished",
    }  # fmt: skip
    assert headline(rows["raise"].reason) == "ValueError: a planted fault"
    assert rows["raise"].dev == {}
    # They do not keep the rest from its end.
    assert faulty.answer.code == 1
    assert "fault=raise seed 42: FAILED: ValueError: a planted fault" in faulty.answer.out
    assert "Failed trials: 1" in faulty.answer.out
    finals = faulty.of("faulty", "final")
    assert sorted(row.seed for row in finals) == [0, 1]
    assert {row.configuration["fault"] for row in finals} <= {"none", "no fault"}
    assert {row.status for row in finals} == {"finished"}
    # Values that the user has taken out of the grid do not count.
    without = text.replace("[raise, none, no fault]", "[none, no fault]")
    swept = serial_sweep(["faulty"], without, "faulty")
    assert swept.written == faulty.written
    assert "search, round 1: 0 to run, 2 already in the store" in swept.answer.out
    assert swept.answer.code == 0, swept.answer.out
    (folder / "faulty.repaired").touch()
    repaired = serial_sweep(["faulty"], text, "faulty")
    assert repaired.answer.code == 0, repaired.answer.out + repaired.answer.err
    assert "search, round 1: 1 to run, 2 already in the store" in repaired.answer.out
    again = fault_rows(repaired)
    assert {row.status for row in again.values()} == {"finished"}
    assert {again[name].key == row.key for name, row in rows.items()} == {True}
    kept = [f"{row.key}.parquet" for row in faulty.rows if row.status == "finished"]
    assert [repaired.written[name] for name in kept] == [faulty.written[name] for name in kept]
