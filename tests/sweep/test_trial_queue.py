"""The queue of a round: what waits for another process comes later, and keeps no other trial."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.claims import Claim
from harness.sweep import trial_queue
from harness.sweep.trial_queue import Listed, Together, TrialQueue
from harness.trials.store import Store
from harness.trials.trial import Trial

FINISHED: Mapping[str, Any] = {"status": "finished", "reason": None, "dev": 50.0}


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue looks and tries again without a pause."""
    monkeypatch.setattr(trial_queue, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(trial_queue, "PROBE_SECONDS", 0.0)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def queue_of(store: Store, *keys: str) -> TrialQueue:
    trials = {key: Trial("simcse", {"encoder": "tiny-bert"}, seed=0) for key in keys}
    return TrialQueue(Listed(trials), store)


def given(queue: TrialQueue) -> str | None:
    found = queue.next()
    return found[0] if found else None


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


def test_a_trial_of_two_sources_runs_once(store: Store) -> None:
    trial = Trial("simcse", {"encoder": "tiny-bert"}, seed=0)
    sources = [Listed({"a": trial, "b": trial}), Listed({"b": trial, "c": trial})]
    queue = TrialQueue(Together(sources), store)
    assert [given(queue) for _ in range(4)] == ["a", "b", "c", None]
    for key in ("a", "b", "c"):
        queue.ended(key, FINISHED)
    assert queue.finished
