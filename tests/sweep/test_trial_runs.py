"""Trials that wait for another process or for a part come later, and keep no other trial."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from threading import Event, get_ident
from typing import Any

import pytest

from harness.claims import Claim
from harness.sweeps.trial_runs import TrialRuns
from harness.trials.store import SMALL_FILES, Store
from harness.trials.trial import Trial
from tests.sweep.conftest import SMALL, HandPool, Hurried, settled

pytestmark = pytest.mark.usefixtures("parts_made")
POSTPONED = {"status": "postponed", "reason": "another process makes the first stage"}
WORDS = "the word pieces of graded-sentences for tiny-bert"


@pytest.fixture
def no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No part is there; those of `parts_made` are in another cache."""
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))


def simcse() -> Trial:
    return Trial("simcse", SMALL, 0, "search")


def in_stages(steps: int) -> Trial:
    """A trial that shares word pieces, and then a first stage of so many steps."""
    values = {"setting": "sup", "stage1_steps": steps, "triplets": "graded-triplets"}
    return Trial("diffaug", SMALL | values, 0, "search")


def names(pool: HandPool) -> list[str]:
    """The titles of parts and the keys of trials that have begun, in order."""
    return [job.part.title if job.part else job.key for job in pool.begun]


class Waiting:
    """Trials that are asked for in their order, on a pool whose jobs a test ends."""

    def __init__(self, store: Store, slots: int) -> None:
        self.pool = HandPool(slots, parts=True)
        self.runs: TrialRuns = self.pool.runs(store)
        self.tasks: list[asyncio.Task[Any]] = []

    async def ask(self, trials: dict[str, Trial]) -> None:
        self.runs.expected |= trials
        for key, trial in trials.items():
            slot = await self.runs.lanes.slot("search")
            self.tasks.append(asyncio.create_task(self.runs.report(key, trial, "search", slot)))


Scenario = Callable[[Waiting], Awaitable[None]]
Play = Callable[..., HandPool]


@pytest.fixture
def play(tmp_path: Path) -> Play:
    """play(scenario, key=trial, ..., slots=1, kind=Store): the pool at its end, all finished."""

    async def run(
        scenario: Scenario, slots: int, kind: type[Store], trials: dict[str, Trial | None]
    ) -> HandPool:
        waiting = Waiting(kind(tmp_path / "store"), slots)
        asked = {key: trial or simcse() for key, trial in trials.items()}
        task = asyncio.create_task(waiting.ask(asked))
        await settled()
        await scenario(waiting)
        while waiting.pool.running:
            await waiting.pool.end(next(iter(waiting.pool.running)))
        await task
        assert all(report.done() for report in waiting.runs.reports.values())
        return waiting.pool

    def hurried(scenario: Scenario, slots: int = 1, kind: Any = Store, **trials: Any) -> HandPool:
        with asyncio.Runner(loop_factory=Hurried) as runner:
            return runner.run(run(scenario, slots, kind, trials))

    return hurried


def test_a_trial_that_another_process_runs_comes_when_its_claim_is_free(
    play: Play, tmp_path: Path
) -> None:
    other = Claim(Store(tmp_path / "store").claim("a"))
    other.take()

    async def scenario(waiting: Waiting) -> None:
        assert waiting.pool.keys == ["b"]
        await waiting.pool.end("b")
        await asyncio.sleep(60)
        assert not waiting.pool.running
        other.release()
        await asyncio.sleep(3)
        assert [*waiting.pool.running] == ["a"]

    play(scenario, a=None, b=None)


def test_one_of_those_that_wait_for_the_same_tries_again(play: Play) -> None:
    async def scenario(waiting: Waiting) -> None:
        pool = waiting.pool
        ended = [pool.running[key][1] for key in "abc"]
        pool.running.clear()
        for each in ended:
            each.set_result(POSTPONED)
        await asyncio.sleep(4)
        assert not pool.running
        await asyncio.sleep(2)
        assert [*pool.running] == ["a"]
        await pool.end("a", **POSTPONED)
        await asyncio.sleep(6)
        assert [*pool.running] == ["b"]
        pool.running["b"][0].progressed({})  # it trains, so the first stage is there
        await settled()
        assert [*pool.running] == ["b", "c", "a"]

    play(scenario, slots=3, a=None, b=None, c=None)


@pytest.mark.slow
def test_the_store_is_compacted_while_further_trials_begin_and_end(play: Play) -> None:
    driver, compacting, last_has_ended = get_ident(), Event(), Event()
    threads = []

    class SlowStore(Store):
        def compact(self, at_least: int = 0) -> int:
            threads.append(get_ident())
            compacting.set()
            assert last_has_ended.wait(60)
            return super().compact(at_least)

    async def scenario(waiting: Waiting) -> None:
        running = waiting.pool.running
        while len(running) < SMALL_FILES:
            await settled()
        for _, ended in (running.pop(key) for key in [*running]):
            ended.set_result({"status": "pruned", "reason": None})
        assert await asyncio.to_thread(compacting.wait, 60)
        while not running:  # the thread may have been faster than what follows here
            await settled()
        assert [*running] == ["last"]
        await waiting.pool.end("last", "pruned")
        last_has_ended.set()
        waiting.runs.compact()  # as at the end of a sweep: it waits for the one that is under way

    trials = [f"trial {number}" for number in range(SMALL_FILES)]
    play(scenario, SMALL_FILES, SlowStore, **dict.fromkeys([*trials, "last"]))
    assert len(threads) == 2
    assert driver not in threads


@pytest.mark.parametrize("status", ["finished", "failed"])
def test_a_trial_waits_for_the_one_that_trains_its_encoder(status: str, play: Play) -> None:
    """The trial that needs it says in its own record that the other one has failed."""
    start = "5" * 32
    later = Trial("simcse", SMALL | {"encoder": f"tiny-bert@{start}"}, 0)

    async def scenario(waiting: Waiting) -> None:
        assert [*waiting.pool.running] == [start]
        await waiting.pool.end(start, status)

    trials: dict[str, Any] = {"a": later, start: None, "b": later}
    assert sorted(play(scenario, **trials).keys[1:]) == ["a", "b"]


@pytest.mark.usefixtures("no_cache")
def test_parts_that_follow_one_another(play: Play) -> None:
    async def scenario(waiting: Waiting) -> None:
        for _ in range(2):
            [part] = waiting.pool.running
            await waiting.pool.end(part)

    pool = play(scenario, a=in_stages(20), b=in_stages(20), slots=2)
    stage = "the first stage of diffaug sup tiny-bert seed 0"
    assert names(pool) == [WORDS.replace("sentences", "triplets"), stage, "a", "b"]


@pytest.mark.usefixtures("no_cache")
def test_a_trial_that_needs_nothing_does_not_wait(play: Play) -> None:
    async def scenario(waiting: Waiting) -> None:
        assert sorted(names(waiting.pool)) == ["c", WORDS]
        await waiting.pool.end(next(job.key for job in waiting.pool.begun if job.part))

    pooling = Trial("pooling", {"encoder": "tiny-bert", "suite": "graded"}, 0)
    pool = play(scenario, slots=2, a=simcse(), b=simcse(), c=pooling, d=pooling)
    assert sorted(names(pool)[:2]) == ["c", WORDS]
    assert names(pool)[2:] == ["a", "b", "d"], "those that have waited are in front"


@pytest.mark.usefixtures("no_cache")
def test_a_first_stage_is_as_long_as_the_longest_trial_asks_for(play: Play) -> None:
    async def scenario(waiting: Waiting) -> None:
        await waiting.pool.end(waiting.pool.keys[0])  # the word pieces
        _, job = waiting.pool.begun
        assert job.part
        assert (job.part.steps, job.asked) == (50, {20, 30, 50})
        assert job.trial.configuration["stage1_steps"] == 50
        await waiting.pool.end(job.key)

    play(scenario, a=in_stages(20), b=in_stages(50), c=in_stages(30))


@pytest.mark.usefixtures("no_cache")
@pytest.mark.parametrize("status", ["finished", "failed"])
def test_a_part_that_another_process_makes_is_tried_again(status: str, play: Play) -> None:
    async def scenario(waiting: Waiting) -> None:
        [words] = waiting.pool.running
        await waiting.pool.end(words, "postponed", reason="another process makes the words")
        await asyncio.sleep(6)
        await waiting.pool.end(words, status)  # when it failed, the trial itself says why

    assert names(play(scenario, a=simcse())) == [WORDS, WORDS, "a"]
