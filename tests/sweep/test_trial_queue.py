"""The queue of a sweep: what waits for another process comes later, and keeps no other trial."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.claims import Claim
from harness.sweep.queue import trial_queue
from harness.sweep.queue.trial_queue import TrialQueue
from harness.sweep.queue.trial_sources import Listed
from harness.trials.shared_parts import Part
from harness.trials.store import Store
from harness.trials.trial import Trial

FINISHED: Mapping[str, Any] = {"status": "finished", "reason": None, "dev": 50.0}


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue looks and tries again without a pause."""
    monkeypatch.setattr(trial_queue, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(trial_queue, "PROBE_SECONDS", 0.0)
    monkeypatch.setattr(trial_queue, "missing_parts", lambda _: [])


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def queue_of(store: Store, *keys: str) -> TrialQueue:
    trials = {key: Trial("simcse", {"encoder": "tiny-bert"}, seed=0) for key in keys}
    return TrialQueue(Listed(trials), store, set())


def given(queue: TrialQueue) -> str | None:
    found = queue.next()
    return found.key if found else None


def test_every_trial_once_in_order(store: Store) -> None:
    queue = queue_of(store, "a", "b")
    assert [given(queue), given(queue), given(queue)] == ["a", "b", None]
    queue.ended("a", FINISHED)
    assert not queue.finished
    queue.ended("b", FINISHED)
    assert queue.finished


def test_a_trial_that_another_process_runs_comes_when_its_claim_is_free(store: Store) -> None:
    other = Claim(store.claim("a"))
    other.take()
    queue = queue_of(store, "a", "b")
    assert [given(queue), given(queue)] == ["b", None]
    queue.ended("b", FINISHED)
    assert not queue.finished
    other.release()
    assert given(queue) == "a"


def test_one_of_those_that_wait_for_the_same_tries_again(store: Store) -> None:
    queue = queue_of(store, "a", "b", "c")
    for key in ("a", "b", "c"):
        assert given(queue) == key
        queue.postponed(key, "another process makes the first stage")
    assert [given(queue), given(queue)] == ["a", None]
    queue.postponed("a", "another process makes the first stage")
    assert [given(queue), given(queue)] == ["b", None]
    assert not queue.progressed("b", {})  # it trains, so the first stage is there
    assert [given(queue), given(queue), given(queue)] == ["c", "a", None]


def test_the_end_of_one_releases_the_others(store: Store) -> None:
    queue = queue_of(store, "a", "b")
    for key in ("a", "b"):
        assert given(queue) == key
        queue.postponed(key, "another process makes tokens")
    assert given(queue) == "a"
    queue.ended("a", {"status": "failed", "reason": "a planted fault", "dev": None})
    assert given(queue) == "b"
    queue.ended("b", FINISHED)
    assert queue.finished


@pytest.mark.parametrize("status", ["finished", "failed"])
def test_a_trial_waits_for_the_one_that_trains_its_encoder(store: Store, status: str) -> None:
    """When that has failed, the trial that needs it says so in its own record."""
    start = "5" * 32
    trials = {
        key: Trial("simcse", {"encoder": f"tiny-bert@{start}" if key != start else "tiny-bert"}, 0)
        for key in ("a", start, "b")
    }
    queue = TrialQueue(Listed(trials), store, set())
    assert [given(queue), given(queue)] == [start, None]
    assert not queue.finished
    queue.ended(start, {**FINISHED, "status": status})
    assert [given(queue), given(queue), given(queue)] == ["a", "b", None]


def test_a_trial_does_not_wait_for_one_that_is_not_in_the_queue(store: Store) -> None:
    trial = Trial("simcse", {"encoder": f"tiny-bert@{'5' * 32}"}, seed=0)
    assert given(TrialQueue(Listed({"a": trial}), store, set())) == "a"


def part(key: str, trial: Trial, steps: int = 0) -> Part:
    return Part(key, f"the part {key}", trial, None, steps)


def test_a_part_is_made_once_before_the_trials_that_need_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial_queue, "missing_parts", lambda trial: [part("words", trial)])
    queue = queue_of(store, "a", "b")
    assert [given(queue), given(queue)] == ["words", None]
    assert not queue.finished
    queue.ended("words", {})
    assert [given(queue), given(queue), given(queue)] == ["a", "b", None]


def test_parts_that_follow_one_another(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    made: set[str] = set()

    def missing(trial: Trial) -> list[Part]:
        return [part("stage" if "words" in made else "words", trial)]

    monkeypatch.setattr(trial_queue, "missing_parts", missing)
    queue = queue_of(store, "a", "b")
    for name in ("words", "stage"):
        assert [given(queue), given(queue)] == [name, None]
        made.add(name)
        queue.ended(name, {})
    assert [given(queue), given(queue)] == ["a", "b"]


def test_a_trial_that_needs_nothing_does_not_wait(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    trials = {key: Trial("simcse", {}, seed) for seed, key in enumerate("ab")}
    monkeypatch.setattr(
        trial_queue, "missing_parts", lambda trial: [] if trial.seed else [part("words", trial)]
    )
    queue = TrialQueue(Listed(trials), store, set())
    assert [given(queue), given(queue), given(queue)] == ["words", "b", None]


def test_a_trial_that_has_waited_for_a_part_keeps_its_place(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The final seeds begin in their order, also where the first one makes what they share."""
    trials = {key: Trial("simcse", {}, seed) for seed, key in enumerate("abcd")}
    made: set[str] = set()

    def missing(trial: Trial) -> list[Part]:
        return [part("words", trial)] if trial.seed < 2 and not made else []

    monkeypatch.setattr(trial_queue, "missing_parts", missing)
    queue = TrialQueue(Listed(trials), store, set())
    assert [given(queue), given(queue)] == ["words", "c"]  # another worker takes what needs nothing
    made.add("words")
    queue.ended("words", {})
    assert [given(queue), given(queue), given(queue), given(queue)] == ["a", "b", "d", None]


def test_a_first_stage_is_as_long_as_the_longest_trial_asks_for(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    trials = {key: Trial("diffaug", {}, seed) for seed, key in enumerate("abc")}
    lengths = (20, 50, 30)
    monkeypatch.setattr(
        trial_queue, "missing_parts", lambda trial: [part("stage", trial, lengths[trial.seed])]
    )
    queue = TrialQueue(Listed(trials), store, set())
    job = queue.next()
    assert job
    assert job.part
    assert (job.part.steps, job.trial.seed, job.asked) == (50, 1, {20, 30, 50})
    assert given(queue) is None
    queue.ended("stage", {})
    assert {given(queue), given(queue), given(queue)} == {"a", "b", "c"}


def test_a_part_that_another_process_makes_is_tried_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial_queue, "missing_parts", lambda trial: [part("words", trial)])
    queue = queue_of(store, "a")
    assert given(queue) == "words"
    queue.postponed("words", "another process makes the words")
    assert given(queue) == "words"
    queue.ended("words", {"status": "failed"})  # then the trial itself says why
    assert given(queue) == "a"


def test_a_queue_of_parts_alone(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial_queue, "missing_parts", lambda trial: [part("words", trial)])
    trials = {"a": Trial("simcse", {}, 0)}
    queue = TrialQueue(Listed(trials), store, set(), only_parts=True)
    assert given(queue) == "words"
    queue.ended("words", {})
    assert given(queue) is None
    assert queue.finished
