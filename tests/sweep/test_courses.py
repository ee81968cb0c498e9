"""The courses of several searches go on side by side, and their trials share the workers."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.errors import UserError
from harness.sweep.queue.trial_queue import TrialQueue
from harness.sweep.queue.trial_sources import Line, Listed
from harness.sweep.searching import courses as module
from harness.sweep.searching.courses import Begun, Courses, Phase
from harness.sweep.spaces.search import Search
from harness.sweep.workers.gpu_share import GpuShares
from harness.trials.store import Store
from harness.trials.trial import Trial

FINISHED = {"status": "finished", "reason": None, "dev": 1.0, "cost": 0.0, "seconds": 0.0}
SEARCH = Search("simcse", "", {"encoder": "tiny-bert"}, (), {}, None, {}, None)


@pytest.fixture(autouse=True)
def lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    """No trial is longer than another one, and none needs a part that is not there."""
    monkeypatch.setattr(module, "long_first", dict)
    monkeypatch.setattr("harness.sweep.queue.trial_queue.missing_parts", lambda _: [])


def trials(*keys: str) -> dict[str, Trial]:
    """Key -> trial."""
    values = {"encoder": "tiny-bert", "suite": "graded"}
    return {key: Trial("pooling", values, seed) for seed, key in enumerate(keys)}


class Suggested:
    """A sampler that suggests so many trials, at most `at_a_time` without an end."""

    learns = True

    def __init__(self, name: str, count: int, at_a_time: int) -> None:
        self.name, self.count, self.at_a_time = name, count, at_a_time
        self.asked, self.open = 0, set[str]()

    def lines(self) -> Sequence[Line]:
        return [self]

    def more(self) -> Mapping[str, Trial]:
        if self.asked == self.count or len(self.open) == self.at_a_time:
            return {}
        self.asked += 1
        self.open.add(f"{self.name}{self.asked}")
        return trials(f"{self.name}{self.asked}")

    def progressed(self, key: str, report: Mapping[str, Any]) -> bool:
        return False

    def ended(self, key: str, report: Mapping[str, Any]) -> None:
        self.open.remove(key)

    @property
    def exhausted(self) -> bool:
        return not self.open and self.asked == self.count

    @property
    def to_run(self) -> int:
        return self.count - self.asked + len(self.open)


class Sweep:
    """A sweep of made-up courses, with as many workers as there are slots."""

    def __init__(self, folder: Path, slots: int = 1) -> None:
        self.slots, self.store = slots, Store(folder)
        self.phases: dict[str, Begun] = {}
        self.heard: list[tuple[list[str], int | None]] = []
        self.courses = Courses(self._begin, lambda *now: self.heard.append(now))
        self.queue = TrialQueue(self.courses, self.store, set(), slots=slots)
        self.running: list[str] = []
        self.events: list[str] = []

    def _begin(self, phases: Sequence[Phase]) -> list[Begun]:
        return [self.phases[phase.title] for phase in phases]

    def phase(self, title: str, *keys: str, source: Any = None) -> Phase:
        """A phase with these trials."""
        self.phases[title] = Begun(trials(*keys), source)
        return Phase(title, SEARCH, [])

    def fill(self) -> None:
        """Give a trial to each free worker."""
        while len(self.running) < self.slots and (job := self.queue.next()):
            self.running.append(job.key)
            self.events.append(job.key)

    def end(self, key: str) -> None:
        """A trial ends, and the free worker gets another one."""
        self.running.remove(key)
        self.queue.ended(key, FINISHED)
        self.fill()

    def run(self) -> None:
        """Run all, the trial that has begun first ends first."""

        def run(_: Courses) -> None:
            self.fill()
            while self.running:
                self.end(self.running[0])
            assert self.queue.finished

        self.courses.run(run)


@pytest.fixture
def sweep(tmp_path: Path) -> Sweep:
    return Sweep(tmp_path, slots=2)


def test_a_round_begins_when_all_trials_of_the_one_before_have_ended(sweep: Sweep) -> None:
    seen: list[list[str]] = []

    def course() -> Iterator[Phase]:
        yield sweep.phase("round 1", "a", "b")
        seen.append(list(sweep.running))
        yield sweep.phase("nothing is left of round 2")
        yield sweep.phase("round 3", "c")

    sweep.courses.add(course())
    sweep.run()
    assert sweep.events == ["a", "b", "c"]
    assert seen == [[]]


def test_without_a_trial_nothing_is_run(sweep: Sweep) -> None:
    sweep.courses.add(iter([sweep.phase("round 1"), sweep.phase("final seeds")]))
    sweep.courses.run(lambda _: pytest.fail("Ray starts"))


def test_no_course_waits_for_another_one(sweep: Sweep) -> None:
    """The first search chooses while a trial of the second one runs, and begins its finals."""
    sweep.courses.add(iter([sweep.phase("round 1 of a", "a"), sweep.phase("finals", "final")]))
    sweep.courses.add(iter([sweep.phase("round 1 of b", "b")]))
    sweep.fill()
    assert sweep.running == ["a", "b"]
    sweep.end("a")
    assert sweep.running == ["b", "final"]
    assert sweep.heard[-1] == (["finals", "round 1 of b"], 2)


def test_a_course_may_begin_another_one(sweep: Sweep) -> None:
    def trainer() -> Iterator[Phase]:
        yield sweep.phase("round", "a")
        sweep.courses.add(iter([sweep.phase("of its encoder", "later")]))
        yield sweep.phase("finals", "final")

    sweep.courses.add(trainer())
    sweep.run()
    assert sorted(sweep.events) == ["a", "final", "later"]


def test_finals_of_a_decided_search_start_while_another_one_samples(sweep: Sweep) -> None:
    short, long = Suggested("short", 2, 2), Suggested("long", 6, 2)
    for name, source in (("short", short), ("long", long)):
        finals = sweep.phase(f"{name} finals", f"{name} final 1", f"{name} final 2")
        sweep.courses.add(iter([sweep.phase(name, source=source), finals]))
    sweep.run()
    assert sweep.events == [
        "short1", "long1", "short2", "long2",
        "short final 1", "long3", "short final 2", "long4",
        "long5", "long6", "long final 1", "long final 2",
    ]  # fmt: skip


@pytest.mark.parametrize("slots", [1, 2, 3, 5])
def test_no_worker_is_idle_while_a_search_may_suggest(tmp_path: Path, slots: int) -> None:
    """Whichever trial ends: as long as so many trials are left, all workers have one."""
    for last in (False, True):
        sweep = Sweep(tmp_path, slots)
        for name, count in {"x": 3, "y": 14, "z": 8}.items():
            sampled = sweep.phase(name, source=Suggested(name, count, slots))
            sweep.courses.add(iter([sampled]))
        sweep.courses.add(iter([sweep.phase("grid", "a", "b", "c", "d")]))
        sweep.courses._go_on()
        sweep.fill()
        left = 3 + 14 + 8 + 4
        while sweep.running:
            assert len(sweep.running) == min(slots, left)
            sweep.end(sweep.running[-1 if last else 0])
            left -= 1
        assert (left, sweep.queue.finished) == (0, True)


def test_searches_share_the_workers_evenly(tmp_path: Path) -> None:
    """As long as each of them may suggest, none has two workers more than another."""
    sweep = Sweep(tmp_path, slots=5)
    for name in "xyz":
        sweep.courses.add(iter([sweep.phase(name, source=Suggested(name, 10, 5))]))
    sweep.fill()
    for _ in range(15):
        counts = [sum(key[0] == name for key in sweep.running) for name in "xyz"]
        assert max(counts) - min(counts) <= 1
        sweep.end(sweep.running[0])


def test_nothing_is_suggested_before_a_worker_is_free(tmp_path: Path) -> None:
    """What is suggested later knows more; Tune would ask ahead."""
    sweep = Sweep(tmp_path, slots=2)
    sources = [Suggested(name, 5, 2) for name in "xy"]
    for source in sources:
        sweep.courses.add(iter([sweep.phase(source.name, source=source)]))
    sweep.fill()
    assert sweep.queue.next() is None
    assert [source.asked for source in sources] == [1, 1]


def test_a_trial_for_which_two_searches_ask_runs_once(sweep: Sweep) -> None:
    sweep.courses.add(iter([sweep.phase("one", "a", "b")]))
    sweep.courses.add(iter([sweep.phase("two", "b", "c"), sweep.phase("later", "d")]))
    sweep.run()
    assert sweep.events == ["a", "b", "c", "d"]


def test_an_error_ends_its_course_and_is_raised_at_the_end(sweep: Sweep) -> None:
    def broken() -> Iterator[Phase]:
        yield sweep.phase("round 1", "a")
        raise UserError("a model is missing")

    sweep.courses.add(broken())
    sweep.courses.add(iter([sweep.phase("one", "b"), sweep.phase("two", "c")]))
    with pytest.raises(UserError, match="a model is missing"):
        sweep.run()
    assert sweep.events == ["a", "b", "c"]


def test_a_run_of_tune_ends_after_many_jobs_and_the_next_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.sweep.cluster import relay

    monkeypatch.setattr(relay, "MOST_JOBS", 2)
    store = Store(tmp_path)
    queue = TrialQueue(Listed(trials("a", "b", "c")), store, set())
    shares = GpuShares(0.0, [], 0, store)

    def keys() -> list[Any]:
        feed = relay.Feed(queue, shares, None)
        found = [feed.suggest(str(number)) for number in range(4)]
        return [each if isinstance(each, str | None) else each["key"] for each in found]

    ended = relay.Searcher.FINISHED
    assert keys() == ["a", "b", ended, ended]
    for key in "ab":
        queue.ended(key, FINISHED)
    assert keys() == ["c", None, None, None]
    queue.ended("c", FINISHED)
    assert keys() == [ended] * 4
