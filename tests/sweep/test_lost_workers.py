"""A trial whose worker dies gets another one, but not for ever."""

import asyncio
import json
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.sweeps.cluster.tune_run import RUNS, STARTS, Jobs, death
from harness.sweeps.machines import Limits
from harness.sweeps.pool import POSTPONED, Hearing, Job, Report
from harness.sweeps.workers.limits import STOPPED
from harness.sweeps.workers.worker import run_one, settings_of
from harness.trials.store import Store
from harness.trials.trial import Trial, key


class Lost:
    """A job of Tune, whose workers die."""

    def __init__(self, store: Store) -> None:
        self.store = store
        trial = Trial("pooling", {"encoder": "tiny-bert", "suite": "graded"}, seed=0)
        self.job = Job(key(trial), trial)
        shares: Any = SimpleNamespace(
            ended=lambda *_: None, begun=lambda _: 0.0, least_of=lambda _: 0.0
        )
        self.machines: list[dict[str, float]] = []
        self.said: list[str] = []
        watcher: Any = SimpleNamespace(notice=self.said.append, stopping=None)
        capacity: Any = SimpleNamespace(machines=self.machines)
        self.jobs = Jobs(store, "this sweep", shares, watcher, capacity, 1)

    def reported(self, *, begun: bool, **report: Any) -> Report:
        """A worker ends the job with this report, or dies without one; begun: it had begun."""

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


def test_the_last_death_is_a_failure(tmp_path: Path) -> None:
    """Workers that die before the trial begins do not count as its runs."""
    for begun, times in ((True, RUNS), (False, STARTS)):
        lost = Lost(Store(tmp_path / str(begun)))
        for _ in range(times - 1):
            report = lost.reported(begun=begun)
            assert report["status"] == POSTPONED
            assert report["reason"].endswith("it runs again")
            assert lost.statuses == []
        assert lost.reported(begun=begun)["status"] == "failed"
        assert lost.statuses == ["failed"]
    lost = Lost(Store(tmp_path / "in turn"))
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


def test_failure_without_a_record_is_recorded(lost: Lost, tmp_path: Path) -> None:
    """Texts of Ray about an exception, as that of a lost rank, end with its type and its text."""
    report = {"status": "failed", "reason": "no files", "dev": None, "recorded": False}
    assert lost.reported(begun=True, **report)["reason"] == "no files"
    [record] = lost.store.read().records()
    assert (record.key, record.status, record.reason) == (lost.job.key, "failed", "no files")
    file = tmp_path / "error.txt"
    file.write_text("ray::TrialWorker.train()\nharness.errors.WorkerLost: worker 2 of 2: it died\n")
    assert death(str(file)) == "worker 2 of 2: it died"


# A trial for which there is no room any more


@pytest.mark.parametrize("comes_back", [True, False])
def test_a_trial_without_a_place_says_what_is_missing_and_then_fails(
    lost: Lost, monkeypatch: pytest.MonkeyPatch, comes_back: bool
) -> None:
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)

    def after(seconds: float) -> set[str]:
        nonlocal now
        now += seconds
        return lost.jobs.waited_too_long()

    async def run() -> Report | None:
        ended = lost.jobs.give(lost.job, Hearing(lambda: None, lambda _: False))
        lost.jobs.next_settings()
        assert not after(20)
        assert not lost.said
        assert not after(30)
        [sentence] = lost.said
        assert "for its 1 worker of 1 CPU and 0 GPUs each" in sentence
        assert "all machines have room for 0 of them. It goes on when there are enough" in sentence
        assert "fails in 30 minutes" in sentence
        assert not after(1700)
        if comes_back:
            lost.machines.append({"CPU": 1.0})
        late = after(200)
        assert len(lost.said) == 1 + comes_back, "others use the cluster then"
        assert late == (set() if comes_back else {lost.job.key})
        return None if comes_back else await ended

    report = asyncio.run(run())
    assert lost.statuses == ([] if comes_back else ["failed"])
    assert comes_back or (report and "room for 0 of them, for 30 minutes" in report["reason"])


@pytest.mark.slow
@pytest.mark.process  # its watchdog
def test_a_trial_whose_worker_tune_ends_has_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`tune.report` raises SystemExit in a training whose driver or head is gone."""
    values: dict[str, Any] = {
        "encoder": "tiny-bert", "suite": "graded", "sentences": "graded-sentences",
        "batch_size": 8, "max_steps": 3, "evaluation_interval": 1,
    }  # fmt: skip
    trial, store, reports = Trial("simcse", values, seed=0), Store(tmp_path / "store"), list[Any]()
    settings = settings_of(Job(key(trial), trial), 0, None)

    def end(report: Report) -> None:
        reports.append(report["step"])
        sys.exit(0)

    monkeypatch.setattr("ray.tune.report", end)
    with pytest.raises(SystemExit):
        run_one(settings, store=str(store.folder), sweep="1", commit="", cpus=1, limits=Limits())
    assert reports == [1]
    assert not store.read().records()
