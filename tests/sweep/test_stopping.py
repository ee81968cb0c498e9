"""Ctrl-C in a sweep: its running trials are asked, Tune goes on, and then the sweep ends."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.claims import Claim
from harness.errors import SweepStopped
from harness.sweeps.cluster.stopping import Stopping
from harness.sweeps.cluster.tune_run import TuneScheduler
from harness.trials.run import GIVE_WAY
from harness.trials.store import Store


@pytest.fixture(autouse=True)
def heeds_ctrl_c() -> Iterator[None]:
    """Ctrl-C and SIGHUP interrupt this process, also in the background and under nohup."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    hangup = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGINT, before)
    signal.signal(signal.SIGHUP, hangup)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store in which a trial runs."""
    store = Store(tmp_path / "store")
    Claim(store.claim("runs")).take()
    return store


def lose_ray(asked: bool) -> None:
    if asked:
        signal.raise_signal(signal.SIGTERM)
    raise SweepStopped("Ray has stopped answering")


def of(store: Store, running: set[str], said: list[int]) -> Stopping:
    return Stopping(store, "sweep", running, said.append)


def test_it_ends_when_the_asked_trials_have_given_way(store: Store) -> None:
    numbers, running = list[int](), {"runs", "pending"}
    stop = of(store, running, numbers)
    with stop.heeded():
        stop.look()  # nobody has asked
        assert not stop.asked
        signal.raise_signal(signal.SIGINT)
        stop.look()
        stop.look()  # the trial still runs
        assert numbers == [1]
        assert stop.note.exists()
        assert (store.running("runs") / GIVE_WAY).exists()
        assert not store.running("pending").exists()
        running.remove("runs")
        with pytest.raises(KeyboardInterrupt):
            stop.look()
    assert not stop.note.exists()


def test_it_ends_at_a_second_signal_after_its_patience_and_with_ray(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`timeout` sends a signal to all processes of a command, so that Ray ends as well."""
    stop = of(store, {"runs"}, [])
    with stop.heeded():
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    stop = of(store, {"runs"}, [])
    with stop.heeded():
        signal.raise_signal(signal.SIGHUP)  # the shell and the system send it
        signal.raise_signal(signal.SIGHUP)
        assert stop.asked
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_DFL
    stop = of(store, {"runs"}, [])
    for asked, error in ((False, SweepStopped), (True, KeyboardInterrupt)):
        with pytest.raises(error), stop.heeded():
            lose_ray(asked)
    assert not stop.note.exists()
    stop, now, passed = of(store, {"runs"}, []), time.monotonic(), 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now + passed)
    with stop.heeded():
        signal.raise_signal(signal.SIGTERM)
        stop.look()
        passed = 59.0
        stop.look()
        passed = 61.0
        with pytest.raises(KeyboardInterrupt):
            stop.look()


# A free worker takes a trial for which no other worker is starting.


def test_the_next_trial() -> None:
    ended, waits = "TERMINATED", "PENDING"
    for slots, statuses, chosen in (
        (1, [ended, waits, waits], 1),
        (2, [ended, waits, waits], 2),  # a worker starts for the first of them
        (2, ["RUNNING", ended, waits, waits], 2),  # none is starting
        (4, ["RUNNING", ended, waits, waits, waits, waits], 4),
        (8, [ended, waits, waits], 2),  # the last, as long as no more are there
        (8, [ended, "RUNNING"], None),
        (2, [], None),
    ):
        trials = [SimpleNamespace(status=status) for status in statuses]
        kept: dict[str, Any] = {"_stopped_trials": set(), "_failed_trials": set()}
        controller = SimpleNamespace(**kept)
        next_one = TuneScheduler(lambda slots=slots: slots, set).choose_trial_to_run(
            SimpleNamespace(get_trials=lambda all=trials: all, _tune_controller=controller)
        )
        assert next_one is (None if chosen is None else trials[chosen])
