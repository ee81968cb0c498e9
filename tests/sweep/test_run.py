"""A sweep whose trials end when a test says so: the order of its trials, without Ray."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from harness.errors import UserError
from harness.sweeps.pool import Lanes, Slot, finish
from harness.sweeps.run import Sweep
from harness.sweeps.screen.watcher import SweepWatcher
from harness.sweeps.spaces.axes import Values
from harness.sweeps.spaces.search import Search
from harness.trials.store import Store
from tests.sweep.conftest import HEAD, HandPool, settled

pytestmark = pytest.mark.usefixtures("parts_made")
GRID = "  simcse: {grid: {learning_rate: [1e-5, 2e-5]}}\n"
SAMPLER = """\
  simcse:
    ranges: {{learning_rate: {{low: 1.0e-5, high: 1.0e-2, log: true}}}}
    sampler: {{name: random, configurations: {count}}}
"""


class Heard(SweepWatcher):
    """Notes which phases go on."""

    def __init__(self) -> None:
        self.phases: list[tuple[list[str], int | None]] = []
        self.lacking = ""
        """The method that ends with an error when it has chosen"""

    def underway(self, titles: list[str], left: int | None) -> None:
        self.phases.append((titles, left))

    def chosen(self, search: Search, configuration: Values, dev: float | None) -> None:
        if search.name == self.lacking:
            raise UserError("a model is missing")


class Played:
    """A sweep on a pool whose trials a test ends."""

    def __init__(self, found: list[Search], store: Store, slots: int) -> None:
        self.store, self.pool, self.heard = store, HandPool(slots, store), Heard()
        self.sweep = Sweep(found, store, self._start, self.heard, self.heard)
        self.starts = 0

    def _start(self) -> Any:
        self.starts += 1
        return self.pool

    def play(self, scenario: Callable[["Played"], Awaitable[None]] | None = None) -> list[str]:
        """Begin, let a scenario go on, and end what is left; the trials in their order."""

        async def run() -> None:
            task = asyncio.create_task(self.sweep.run())
            await settled()
            self.sweep.lanes.open(lambda held: held < self.pool.slots)
            await settled()
            if scenario:
                await scenario(self)
            while not task.done():
                assert self.pool.running, "nothing runs, and the sweep does not end"
                await self.pool.end(next(iter(self.pool.running)))
            await task

        asyncio.run(run())
        return self.pool.names


SweepOf = Callable[..., Played]


@pytest.fixture
def sweep_of(searches_of: Callable[..., list[Search]], store: Store) -> SweepOf:
    """sweep_of(methods of a space, ..., slots=1): a sweep of several spaces."""
    seeds = "search: {seeds: [42]}\nfinal: {seeds: [0]}\n"

    def make(*parts: str, slots: int = 1, head: str = "") -> Played:
        spaces = [searches_of(f"{HEAD}{head}{seeds}methods:\n{part}") for part in parts]
        return Played([search for searches in spaces for search in searches], store, slots)

    return make


def test_a_round_begins_when_all_trials_of_the_one_before_have_ended(sweep_of: SweepOf) -> None:
    part = "  simcse: {rounds: [{learning_rate: [1e-5, 2e-5]}, {temperature: [0.1, 0.2]}]}\n"
    played = sweep_of(part, slots=2)

    async def scenario(played: Played) -> None:
        first, second = played.pool.keys
        await played.pool.end(first, dev=60.0)
        assert len(played.pool.begun) == 2
        await played.pool.end(second, dev=50.0)
        third, fourth = played.pool.keys[2:]
        await played.pool.end(third, dev=61.0)
        await played.pool.end(fourth, dev=62.0)

    played.play(scenario)
    values = [job.trial.configuration for job in played.pool.begun]
    assert [each["learning_rate"] for each in values] == [1e-5, 2e-5, 1e-5, 1e-5, 1e-5]
    assert [each.get("temperature") for each in values] == [None, None, 0.1, 0.2, 0.2]


def test_the_choice_among_equals_is_the_same_when_the_command_is_given_again(
    sweep_of: SweepOf,
) -> None:
    """A trial scores 50; the first suggestion is not the first of the store."""
    assert sweep_of(SAMPLER.format(count=4)).play() == ["simcse search"] * 4 + ["simcse final"]
    assert sweep_of(SAMPLER.format(count=4)).play() == []


def test_no_search_waits_for_another_one(sweep_of: SweepOf) -> None:
    """The first search chooses while a trial of the second one runs, and begins its finals."""
    played = sweep_of(GRID, GRID.replace("simcse", "esimcse"), slots=4)

    async def scenario(played: Played) -> None:
        assert sorted(played.pool.names) == ["esimcse search"] * 2 + ["simcse search"] * 2
        for job in list(played.pool.begun):
            if job.trial.method == "simcse":
                await played.pool.end(job.key)
        assert played.pool.names[4:] == ["simcse final"]
        assert played.heard.phases[-1] == (["search, round 1", "final seeds"], 3)

    assert played.play(scenario)[5:] == ["esimcse final"]


@pytest.mark.slow
def test_a_search_suggests_the_same_whatever_runs_beside_it(
    sweep_of: SweepOf, store: Store
) -> None:
    """Its random numbers follow from it and the suggestion, made when a worker is free."""
    one, other = SAMPLER.format(count=3), SAMPLER.format(count=2).replace("simcse", "esimcse")

    def rates(played: Played, method: str) -> set[float]:
        jobs = [job.trial for job in played.pool.begun if job.trial.role == "search"]
        return {job.configuration["learning_rate"] for job in jobs if job.method == method}

    async def scenario(_: Played) -> None:
        journals = list(store.studies_folder.glob("*.journal"))
        asked = [path.read_text().count('"op_code":4') for path in journals]
        assert asked == [1, 1], "operation 4 of Optuna's journal creates a trial"

    both = sweep_of(one, other, slots=2)
    both.play(scenario)
    assert len(rates(both, "simcse") | rates(both, "esimcse")) == 5
    shutil.rmtree(store.folder)
    shutil.rmtree(store.studies_folder)
    alone = sweep_of(one)
    alone.play()
    assert rates(alone, "simcse") == rates(both, "simcse")


@pytest.mark.slow
@pytest.mark.parametrize("slots", [1, 2, 3, 5])
@pytest.mark.parametrize("last", [False, True])
def test_no_worker_is_idle_while_a_search_may_suggest(
    slots: int, last: bool, sweep_of: SweepOf
) -> None:
    """Whichever trial ends: as long as so many trials are left, all workers have one."""
    parts = [SAMPLER.format(count=3), SAMPLER.format(count=9).replace("simcse", "esimcse")]
    parts.append("  consert: {grid: {learning_rate: [1e-5, 2e-5, 3e-5, 4e-5]}}\n")
    played = sweep_of(*parts, slots=slots)

    async def scenario(played: Played) -> None:
        for _ in range(10):  # then the last searches are about to choose
            assert len(played.pool.running) == slots
            await played.pool.end(list(played.pool.running)[-1 if last else 0])

    assert len(played.play(scenario)) == 3 + 9 + 4 + 3


def test_a_trial_for_which_two_searches_ask_runs_once(sweep_of: SweepOf) -> None:
    """A method that cannot run is a sentence before any trial begins."""
    other = GRID.replace("[1e-5, 2e-5]", "[2e-5, 3e-5]")
    order = sweep_of(GRID, other, slots=2).play()
    assert order.count("simcse search") == 3
    again = sweep_of(GRID, other)
    asyncio.run(again.sweep.run())
    assert (again.starts, again.pool.begun) == (0, []), "there is nothing to run"
    with pytest.raises(UserError, match="no-such-corpus"):
        sweep_of("  simcse: {set: {sentences: no-such-corpus.txt}}\n").sweep.check()


def test_a_search_starts_from_the_encoder_that_another_one_trains(sweep_of: SweepOf) -> None:
    """Its trials begin when the encoder is there, beside the other finals."""
    later = "  esimcse: {encoders: [{encoder: tiny-bert, trained_by: simcse}]}\n"
    played = sweep_of(GRID + later, slots=3)
    order = played.play()
    assert order == ["simcse search", "simcse search", "simcse final", "esimcse final"]
    final, trained = played.pool.begun[2:]
    assert trained.trial.starts == [final.key]


@pytest.mark.slow
def test_an_error_ends_its_search_and_is_raised_at_the_end(sweep_of: SweepOf) -> None:
    played = sweep_of(GRID, GRID.replace("simcse", "esimcse"), slots=2)
    played.heard.lacking = "simcse"
    with pytest.raises(UserError, match="a model is missing"):
        played.play()
    assert played.pool.names.count("esimcse final") == 1
    assert played.pool.names.count("simcse final") == 0


@pytest.mark.slow
@pytest.mark.parametrize("part", ["sampler", "pruned grid", "grid"])
def test_a_pool_that_grows_is_used_at_once(sweep_of: SweepOf, part: str) -> None:
    """A node joins the cluster, and no trial has ended: samplers suggest for its slots, too."""
    values = [f"{number}e-5" for number in range(1, 7)]
    grid = f"  simcse: {{grid: {{learning_rate: [{', '.join(values)}]}}}}\n"
    pruner = "pruner: {name: median}\n" if part == "pruned grid" else ""
    played = sweep_of(SAMPLER.format(count=6) if part == "sampler" else grid, head=pruner)

    async def scenario(played: Played) -> None:
        assert len(played.pool.running) == 1
        played.pool.slots = 3
        assert played.sweep.lanes.lacking == 5, "for which an autoscaler may start machines"
        played.sweep.lanes.give()
        await settled()
        assert len(played.pool.running) == 3
        assert played.sweep.lanes.lacking == 3

    played.play(scenario)


def test_a_trial_of_several_workers_takes_a_slot_for_each() -> None:
    """Slots that are free are kept for it. A trial that fits nowhere holds a single one."""

    async def scenario() -> None:
        lanes, order, held = Lanes(lambda held: held < 3), list[int](), list[Slot]()

        async def take(workers: int) -> None:
            held.append(await lanes.slot("a", workers=workers))
            order.append(workers)

        tasks = [asyncio.create_task(take(workers)) for workers in (1, 3, 1, 4, 1)]
        await settled()
        for number, ran in enumerate(([1], [1, 3], [1, 3, 1, 4, 1])):
            assert order == ran
            held[number].free()
            await settled()
        assert lanes.lacking == 0
        await asyncio.gather(*tasks)

    asyncio.run(scenario())


def test_the_next_slot_goes_to_the_lane_that_holds_the_fewest() -> None:
    async def scenario() -> None:
        lanes, order, held = Lanes(lambda held: held < 2), list[str | None](), list[Slot]()

        async def take(lane: str | None, *, again: bool = False) -> None:
            held.append(await lanes.slot(lane, again=again))
            lanes.begun(lane)
            order.append(lane)

        lanes.room = lambda _: False
        tasks = [asyncio.create_task(take(lane)) for lane in ("a", "a", "a", "b", None)]
        await settled()
        lanes.open(lambda held: held < 2)
        await settled()
        assert order == [None, "a"], "what trials share comes first"
        held[0].free()
        held[0].free()  # a slot is given back once
        await settled()
        assert order == [None, "a", "b"]
        tasks.append(asyncio.create_task(take("a", again=True)))
        for slot in held[1:]:
            slot.free()
        await settled()
        assert order == [None, "a", "b", "a", "a"]
        for task in tasks:
            task.cancel()

    asyncio.run(scenario())


def test_a_second_ctrl_c_while_tasks_end_is_no_error() -> None:
    async def interrupted() -> None:
        raise KeyboardInterrupt

    loop = asyncio.new_event_loop()
    first = loop.create_task(interrupted())  # before the end of the others begins
    finish(loop)
    assert first.done()
    assert loop.is_closed()
