"""A trial whose worker dies gets another one, but not for ever."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from harness.sweep.cluster.relay import RUNS, STARTS, Relay
from harness.sweep.queue import trial_queue
from harness.sweep.queue.trial_queue import TrialQueue
from harness.sweep.queue.trial_sources import Listed

from harness.sweep.workers.limits import STOPPED
from harness.trials.store import Store
from harness.trials.trial import Trial, key


class Lost:
    """A sweep of one trial, whose workers die."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.waits: list[str] = []
        trial = Trial("pooling", {"encoder": "tiny-bert", "suite": "graded"}, seed=0)
        self.key = key(trial)
        self.queue = TrialQueue(Listed({self.key: trial}), store, set())
        watcher: Any = SimpleNamespace(
            ended=lambda *_: None,
            started=lambda _: None,
            postponed=lambda _, why: self.waits.append(why),
        )
        shares: Any = SimpleNamespace(ended=lambda *_: None)
        stopping: Any = SimpleNamespace(asked=False)
        self.relay = Relay(self.queue, shares, watcher, stopping, "this sweep")

    def dies(self, *, begun: bool) -> None:
        """A worker takes the trial, and dies when it has begun, or before."""
        assert self.queue.next() is not None
        ran = SimpleNamespace(config={"key": self.key, "part": None}, error_file=None)
        if begun:
            self.relay.on_trial_start(0, [], ran)
        self.relay.on_trial_error(0, [], ran)

    @property
    def statuses(self) -> list[str]:
        return [record.status for record in self.store.read().records()]


@pytest.fixture
def lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lost:
    monkeypatch.setattr(trial_queue, "LOOK_SECONDS", -1.0)
    monkeypatch.setattr(trial_queue, "PROBE_SECONDS", -1.0)
    return Lost(Store(tmp_path / "store"))


@pytest.mark.parametrize(("begun", "times"), [(True, RUNS), (False, STARTS)])
def test_the_last_death_is_a_failure(lost: Lost, begun: bool, times: int) -> None:
    for number in range(times):
        assert lost.statuses == []
        assert not lost.queue.finished
        lost.dies(begun=begun)
        assert len(lost.waits) == min(number + 1, times - 1)
    assert lost.statuses == ["failed"]
    assert lost.queue.finished
    assert all(why.endswith("it runs again") for why in lost.waits)


def test_a_lost_machine_costs_no_run(lost: Lost) -> None:
    """Workers that die before the trial begins do not count as its runs."""
    for begun in (False, True, False, False):
        lost.dies(begun=begun)
        assert lost.statuses == []
    lost.dies(begun=True)
    assert lost.statuses == ["failed"]


def test_a_trial_that_was_ended_does_not_run_again(lost: Lost) -> None:
    running = lost.store.running(lost.key)
    running.mkdir(parents=True)
    note = {"sweep": "this sweep", "reason": "it took longer than --trial-timeout"}
    (running / STOPPED).write_text(json.dumps(note))
    lost.dies(begun=True)
    assert lost.statuses == ["failed"]
    assert lost.waits == []
    assert not running.exists()


def test_it_waits_before_it_runs_again(tmp_path: Path) -> None:
    lost = Lost(Store(tmp_path / "store"))
    lost.dies(begun=True)
    assert lost.queue.next() is None
