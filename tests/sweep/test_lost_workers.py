"""A trial whose worker dies gets another one, but not for ever."""

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.sweeps.cluster.tune_run import RUNS, STARTS, Jobs
from harness.sweeps.pool import POSTPONED, Hearing, Job, Report
from harness.sweeps.screen.watcher import SweepWatcher
from harness.sweeps.workers.limits import STOPPED
from harness.trials.store import Store
from harness.trials.trial import Trial, key
from tests.sweep.conftest import Watcher


class Lost:
    """A job of Tune, whose workers die."""

    def __init__(self, store: Store) -> None:
        self.store = store
        trial = Trial("pooling", {"encoder": "tiny-bert", "suite": "graded"}, seed=0)
        self.job = Job(key(trial), trial)
        shares: Any = SimpleNamespace(ended=lambda *_: None)
        self.jobs = Jobs(store, "this sweep", shares, None, cast("SweepWatcher", Watcher()))

    def reported(self, *, begun: bool, **report: Any) -> Report:
        """A worker takes the job and ends it with this report; without one, it dies.

        `begun`: whether it has begun before.
        """

        async def run() -> Report:
            ended = self.jobs.give(self.job, Hearing(lambda: None, lambda _: False))
            ran = SimpleNamespace(config={"key": self.job.key}, error_file=None, last_result=report)
            if begun:
                self.jobs.on_trial_start(0, [], ran)
            event = self.jobs.on_trial_complete if report else self.jobs.on_trial_error
            event(0, [], ran)
            return await ended

        return asyncio.run(run())

    @property
    def statuses(self) -> list[str]:
        return [record.status for record in self.store.read().records()]


@pytest.fixture
def lost(tmp_path: Path) -> Lost:
    return Lost(Store(tmp_path / "store"))


@pytest.mark.parametrize(("begun", "times"), [(True, RUNS), (False, STARTS)])
def test_the_last_death_is_a_failure(lost: Lost, begun: bool, times: int) -> None:
    for _ in range(times - 1):
        report = lost.reported(begun=begun)
        assert report["status"] == POSTPONED
        assert report["reason"].endswith("it runs again")
        assert lost.statuses == []
    assert lost.reported(begun=begun)["status"] == "failed"
    assert lost.statuses == ["failed"]


def test_a_lost_machine_costs_no_run(lost: Lost) -> None:
    """Workers that die before the trial begins do not count as its runs."""
    for begun in (False, True, False, False):
        lost.reported(begun=begun)
        assert lost.statuses == []
    lost.reported(begun=True)
    assert lost.statuses == ["failed"]


def test_a_trial_that_was_ended_does_not_run_again(lost: Lost) -> None:
    running = lost.store.running(lost.job.key)
    running.mkdir(parents=True)
    note = {"sweep": "this sweep", "reason": "it took longer than --trial-timeout"}
    (running / STOPPED).write_text(json.dumps(note))
    assert "it took longer" in lost.reported(begun=True)["reason"]
    assert lost.statuses == ["failed"]
    assert not running.exists()


def test_failure_without_a_record_is_recorded(lost: Lost) -> None:
    said = {"status": "failed", "reason": "no files", "dev": None, "recorded": False}
    assert lost.reported(begun=True, **said)["reason"] == "no files"
    [record] = lost.store.read().records()
    assert (record.key, record.status, record.reason) == (lost.job.key, "failed", "no files")
