"""`--budget`: searches share the time of a sweep, and final seeds keep their part of it."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.errors import UserError
from harness.sweeps.budget import Budget, out_of_time
from harness.sweeps.spaces.search import Search
from harness.trials.store import Store
from tests.programs import Answer
from tests.sweep.conftest import HEAD
from tests.sweep.test_run import Played
from tests.sweeping import KNOWN, one_grid

pytestmark = pytest.mark.usefixtures("parts_made")
RATES = ", ".join(f"{number}e-6" for number in range(1, 13))
GRID = f"  simcse: {{grid: {{learning_rate: [{RATES}]}}}}\n"
SAMPLER = """\
  simcse:
    ranges: {learning_rate: {low: 1.0e-5, high: 1.0e-2, log: true}}
    sampler: {name: random, configurations: 12}
"""


class Timed(Played):
    """A sweep whose trials take ten seconds each, all slots side by side."""

    def __init__(self, searches: list[Search], store: Store, slots: int, seconds: float) -> None:
        super().__init__(searches, store, slots)
        self.now = 0.0
        self.sweep.budget = Budget(seconds, searches, lambda: slots, lambda: self.now)

    def run(self) -> Counter[str]:
        """The methods and roles of the trials that have run."""

        async def scenario(played: Played) -> None:
            while played.pool.running:
                self.now += 10.0
                for number, key in enumerate(list(played.pool.running)):
                    await played.pool.end(key, dev=50.0 + number, seconds=10.0)

        return Counter(self.play(scenario))


SpaceOf = Callable[[str], list[Search]]


@pytest.fixture
def space(searches_of: Callable[..., list[Search]]) -> SpaceOf:
    seeds = "search: {seeds: [42]}\nfinal: {seeds: [0, 1, 2]}\n"
    return lambda methods: searches_of(f"{HEAD}{seeds}methods:\n{methods}")


@pytest.mark.slow
@pytest.mark.parametrize("methods", [GRID, SAMPLER, f"{GRID}pruner: {{name: median}}\n"])
@pytest.mark.parametrize(
    ("slots", "seconds", "tried"), [(1, 100, 7), (1, 1, 1), (2, 100, 12), (2, 60, 8)]
)
def test_what_fits_before_the_final_seeds_runs(
    methods: str, slots: int, seconds: float, tried: int, space: SpaceOf, store: Store
) -> None:
    """One slot and 100 s: three final trials keep 30 of them, so seven configurations fit."""
    played = Timed(space(methods), store, slots, seconds)
    assert played.run() == {"simcse search": tried, "simcse final": 3}
    left_out = played.sweep.budget.left_out
    assert left_out.total() == 12 - tried
    sentences = out_of_time(left_out)
    assert len(sentences) == (tried < 12)
    assert all(f" {12 - tried} trials of simcse" in sentence for sentence in sentences)


@pytest.mark.slow
def test_searches_share_the_time_and_the_same_command_goes_on(space: SpaceOf, store: Store) -> None:
    both = GRID + GRID.replace("simcse", "esimcse")
    first = Timed(space(both), store, 1, 140)
    ran = first.run()
    assert ran == {f"{name} {role}": count for name in ("simcse", "esimcse")
                   for role, count in (("search", 4), ("final", 3))}  # fmt: skip
    assert first.now == 140
    second = Timed(space(both), store, 1, 10_000)
    assert second.run()["simcse search"] == 12 - 4
    assert not second.sweep.budget.left_out


def test_a_limit_without_a_search_is_refused(space: SpaceOf) -> None:
    with pytest.raises(UserError, match=r"^--budget limits how many configurations are tried"):
        Budget(60, space("  simcse:\n"), lambda: 1)


@pytest.mark.slow
def test_a_sweep_on_the_command_line(tmp_path: Path, serially: Callable[..., Answer]) -> None:
    plugin, space, store = tmp_path / "known.py", tmp_path / "space.yaml", tmp_path / "store"
    slowly = KNOWN.replace("    def vector(", "    time.sleep(0.4)\n\n    def vector(")
    slowly = slowly.replace("        self.dev = ", "        time.sleep(0.4)\n        self.dev = ")
    plugin.write_text(slowly, encoding="utf-8")
    space.write_text(one_grid("known", "noise", [0.9, 0.6, 0.25, 0.5]), encoding="utf-8")
    answer = serially(plugin, space, "--store", store, "--budget", "1s")
    assert answer.code == 0, answer.out + answer.err
    assert "The budget had no time for" in answer.out
    assert "and the same command goes on." in answer.out
    assert 1 < len(Store(store).read().records()) < 5
