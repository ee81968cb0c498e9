"""Ctrl-C in a sweep: its running trials are asked, Tune goes on, and then the sweep ends."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.sweep.queue import stopping
from harness.sweep.queue.stopping import Stopping, stop_note
from harness.sweep.queue.trial_queue import TrialQueue
from harness.sweep.queue.trial_sources import Listed

from harness.claims import Claim
from harness.trials.run import GIVE_WAY
from harness.trials.store import Store


@pytest.fixture(autouse=True)
def heeds_ctrl_c() -> Iterator[None]:
    """Ctrl-C interrupts this process, also where it was started in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def queue(tmp_path: Path) -> TrialQueue:
    """A queue that has given two jobs; of these, a trial with a claim runs."""
    queue = TrialQueue(Listed({}), Store(tmp_path / "store"), set())
    queue.given |= {"runs", "pending"}
    Claim(queue.store.claim("runs")).take()
    return queue


def of(queue: TrialQueue, said: list[int]) -> Stopping:
    return Stopping(queue, stop_note(queue.store.running_folder, "sweep"), said.append)


def test_it_ends_when_the_asked_trials_have_given_way(queue: TrialQueue) -> None:
    said: list[int] = []
    stop = of(queue, said)
    with stop.heeded():
        stop.look()  # nobody has asked
        assert not stop.asked
        signal.raise_signal(signal.SIGINT)
        stop.look()
        stop.look()  # the trial still runs
        assert said == [1]
        assert stop.note.exists()
        assert (queue.store.running("runs") / GIVE_WAY).exists()
        assert not queue.store.running("pending").exists()
        queue.given.remove("runs")
        with pytest.raises(KeyboardInterrupt):
            stop.look()
    assert not stop.note.exists()


def test_it_waits_no_longer_than_its_patience(
    queue: TrialQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stopping, "PATIENCE_SECONDS", 0.0)
    stop = of(queue, [])
    with stop.heeded():
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            stop.look()
    assert "runs" in queue.given


def test_a_second_signal_ends_it_at_once(queue: TrialQueue) -> None:
    stop = of(queue, [])
    with stop.heeded():
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
