"""A sweep runs every trial of its space once, selects on dev, and goes on where it stopped."""

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
from tests.programs import Answer

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
SPACE = f"""{HEAD}\
  chosen:
    grid:
      favours: [test, dev]
      noise: [0.25, 0.5]
  rounded:
    rounds:
      - noise: [0.0, 0.4, 0.8]
      - noise: {{between: best_two, step: 0.2}}
      - favours: [test, both]
  varied:
    variants:
      near: {{noise: 0.25}}
      far: {{noise: 0.5}}
    grid:
      favours: [test, dev]
  sampled:
    ranges:
      learning_rate: {{low: 1.0e-3, high: 1.0e-1, log: true}}
      width: {{low: 4, high: 16, step: 4}}
    sampler: {{configurations: 3}}
"""
METHODS = {"chosen": "known", "rounded": "known", "varied": "known", "sampled": "trained"}
FAULTY = f"{HEAD}  faulty: {{grid: {{fault: [raise, none, no fault]}}}}".replace("42, 43", "42")


@dataclass
class Swept:
    """Output and store of a sweep."""

    answer: Answer
    rows: list[Record]
    written: dict[str, int]
    """File -> when"""

    def of(self, method: str, role: str) -> list[Record]:
        """The rows of one method in one role."""
        return [row for row in self.rows if (row.method, row.role) == (method, role)]

    def values(self, method: str, *names: str) -> Counter[tuple[Any, ...]]:
        """The values of these hyperparameters -> how many search trials have them."""
        searched = [row.configuration for row in self.of(method, "search")]
        return Counter(tuple(values[name] for name in names) for values in searched)


Sweep = Callable[..., Swept]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, write_plugin: Callable[..., Path]) -> Path:
    """The folder of the plugins, their search spaces and stores."""
    folder = tmp_path_factory.mktemp("sweeps")
    for name, kind in {**METHODS, "faulty": "trained"}.items():
        write_plugin(folder / f"{name}.py", kind)
    return folder


@pytest.fixture(scope="module")
def sweep(folder: Path, serially: Callable[..., Answer]) -> Sweep:
    """sweep(methods, space, store name): run a sweep and read its store."""

    def call(methods: list[str], text: str, store: str) -> Swept:
        space = folder / "space.yaml"
        space.write_text(text, encoding="utf-8")
        plugins = [folder / f"{name}.py" for name in methods]
        answer = serially(*plugins, space, "--store", folder / store)
        files = (folder / store).glob("*.parquet")
        written = {path.name: path.stat().st_mtime_ns for path in files}
        return Swept(answer, Store(folder / store).read().records(), written)

    return call


@pytest.fixture(scope="module")
def first(sweep: Sweep) -> Swept:
    """A sweep with a grid, rounds, variants and a sampler."""
    swept = sweep([*METHODS], SPACE, "store")
    assert swept.answer.code == 0, swept.answer.out + swept.answer.err
    assert swept.answer.err == ""
    assert {row.status for row in swept.rows} == {"finished"}
    assert Counter(f"{row.key}.parquet" for row in swept.rows) == Counter([*swept.written])
    return swept


def test_grid_runs_every_combination_once(first: Swept) -> None:
    """The grid runs on one seed, since nothing trains."""
    combinations = {(favours, noise): 1 for favours in ("test", "dev") for noise in (0.25, 0.5)}
    assert first.values("chosen", "favours", "noise") == combinations
    assert [row.seed for row in first.of("chosen", "final")] == [0]


def test_best_on_dev_wins_though_another_is_better_on_test(first: Swept, folder: Path) -> None:
    [final] = first.of("chosen", "final")
    assert (final.configuration["favours"], final.configuration["noise"]) == ("dev", 0.25)
    dev = [row.dev["graded-dev"] for row in first.of("chosen", "search")]
    assert final.dev["graded-dev"] == max(dev)
    choice = "chosen for chosen unsup tiny-bert: favours=dev noise=0.25 (graded-dev "
    assert choice in first.answer.out
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
    """The second round lies between the best two, 0.4 and 0.0; its best is 0.2. None runs twice."""
    searched = [("both", noise) for noise in (0.0, 0.4, 0.8, 0.2)] + [("test", 0.2)]
    assert first.values("rounded", "favours", "noise") == Counter(searched)
    [final] = first.of("rounded", "final")
    assert (final.configuration["favours"], final.configuration["noise"]) == ("both", 0.2)


def test_every_variant_is_searched_and_gets_the_final_seeds(first: Swept) -> None:
    grid = {(noise, favours): 1 for noise in (0.25, 0.5) for favours in ("test", "dev")}
    assert first.values("varied", "noise", "favours") == grid
    final = [row.configuration for row in first.of("varied", "final")]
    assert {(row["noise"], row["favours"]) for row in final} == {(0.25, "dev"), (0.5, "dev")}
    for variant in ("near", "far"):
        name = f"varied unsup tiny-bert ({variant})"
        assert f"chosen for {name}: favours=dev (graded-dev " in first.answer.out
        assert re.search(rf"\] {re.escape(name)} .*seed 0: dev ", first.answer.out)


def test_sampler_spends_its_budget(first: Swept) -> None:
    """There are three configurations, each on both search seeds; the best mean is chosen."""
    searched = first.values("sampled", "learning_rate", "width")
    assert sorted(searched.values()) == [2, 2, 2]
    assert all(1e-3 <= rate <= 1e-1 and width in (4, 8, 12, 16) for rate, width in searched)
    scores: dict[float, dict[int, float]] = {}
    for row in first.of("sampled", "search"):
        by_seed = scores.setdefault(row.configuration["learning_rate"], {})
        by_seed[row.seed] = row.dev["graded-dev"]
    assert [sorted(by_seed) for by_seed in scores.values()] == [[42, 43]] * 3
    best = max(scores, key=lambda rate: sum(scores[rate].values()))
    finals = first.of("sampled", "final")
    assert {row.configuration["learning_rate"] for row in finals} == {best}
    assert sorted(row.seed for row in finals) == [0, 1]


def test_a_higher_budget_runs_the_difference_and_nothing_else(first: Swept, sweep: Sweep) -> None:
    """Each configuration is a trial for each of the two search seeds."""
    more = SPACE.replace("configurations: 3", "configurations: 5")
    second = sweep([*METHODS], more, "store")
    before, after = (swept.values("sampled", "learning_rate", "width") for swept in (first, second))
    assert before < after
    assert second.answer.code == 0, second.answer.out + second.answer.err
    assert sorted(after.values()) == [2] * 5
    count = "search, tpe on sampled unsup tiny-bert: 4 to run, 6 already in the store"
    assert count in second.answer.out
    assert {name: second.written[name] for name in first.written} == first.written
    new = [row for row in second.rows if f"{row.key}.parquet" not in first.written]
    assert {row.method for row in new} == {"sampled"}
    for number in (1, 2, 3):
        assert f"search, round {number}: 0 to run" in second.answer.out


def fault_rows(swept: Swept) -> dict[str, Record]:
    return {row.configuration["fault"]: row for row in swept.of("faulty", "search")}


def test_failed_trials_are_tried_again(folder: Path, sweep: Sweep) -> None:
    """tests/faults has faults that end their worker."""
    faulty = sweep(["faulty"], FAULTY, "faulty")
    rows = fault_rows(faulty)
    statuses = {"raise": "failed", "none": "finished", "no fault": "finished"}
    assert {fault: row.status for fault, row in rows.items()} == statuses
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
    without = sweep(["faulty"], FAULTY.replace("raise, none", "none"), "faulty")
    assert without.written == faulty.written
    assert "search, round 1: 0 to run, 2 already in the store" in without.answer.out
    assert without.answer.code == 0, without.answer.out
    (folder / "faulty.repaired").touch()
    repaired = sweep(["faulty"], FAULTY, "faulty")
    assert repaired.answer.code == 0, repaired.answer.out + repaired.answer.err
    assert "search, round 1: 1 to run, 2 already in the store" in repaired.answer.out
    again = fault_rows(repaired)
    assert {row.status for row in again.values()} == {"finished"}
    assert {again[name].key == row.key for name, row in rows.items()} == {True}
    kept = [f"{row.key}.parquet" for row in faulty.rows if row.status == "finished"]
    assert [repaired.written[name] for name in kept] == [faulty.written[name] for name in kept]
