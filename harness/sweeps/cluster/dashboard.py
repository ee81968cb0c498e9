"""Ray's dashboard during a sweep: where it is, its trials by name, and their figures.

The figures are metrics of Ray with fixed names, which `docs/grafana.json` shows. Ray exports them
on every machine for Prometheus, with `ray_` in front of each name.
"""

import asyncio
import os
from collections import defaultdict
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import ray
from ray.util.metrics import Counter, Gauge

from harness.sweeps.screen.watcher import TrialWatcher
from harness.trials.trial import Trial

MOST_RUNNING = 100_000
"""Trials that may run at a time; an asynchronous actor refuses further tasks"""
LABELS = ("method", "encoder", "trial")
"""Labels of the figures of a trial; `trial` is its label, as in `harness watch`"""
FIGURES = {
    "loss": ("harness_loss", "Loss of the last step of a running trial"),
    "dev": ("harness_dev_score", "Last dev score of a running trial"),
    "sentences_per_second": ("harness_sentences_per_second", "Training speed of a running trial"),
}
"""Field of `Progress` -> metric and description"""
RUNNING = ("harness_trials_running", "Trials that run now")
ENDED = {
    "finished": ("harness_trials_finished", "Trials that have finished"),
    "failed": ("harness_trials_failed", "Trials that have failed"),
    "pruned": ("harness_trials_pruned", "Trials that were stopped because of a low dev score"),
}
"""Status of a trial that has ended -> metric and description"""
BUILT = ("harness_artefacts_built", "Artefacts and other shared parts that were built")
SHARED = ("harness_artefacts_shared", "Trials that waited for an artefact and share it")


class Dashboard(TrialWatcher):
    """Shows the trials of a sweep in Ray's dashboard.

    Ray must have been started. Nothing here waits for Ray, so a dashboard that is lost costs the
    sweep nothing.
    """

    def __init__(self) -> None:
        actor = ray.remote(num_cpus=0, max_restarts=-1, max_concurrency=MOST_RUNNING)
        self._tasks = actor(_trial_tasks()).remote()
        self._numbers = count()
        self._running: dict[str, tuple[int, Any]] = {}
        """Name of what runs -> the number and the reference of its task"""
        self._trials: set[str] = set()
        """The labels of the trials among them; the others are parts that trials share"""
        self._figures = {
            field: Gauge(name, description, LABELS)
            for field, (name, description) in FIGURES.items()
        }
        self._running_count = Gauge(*RUNNING)
        self._ended = {status: Counter(*metric) for status, metric in ENDED.items()}
        self._built, self._shared = Counter(*BUILT), Counter(*SHARED)

    def started(self, trial: Trial) -> None:
        self._begin(trial.label)
        self._trials.add(trial.label)
        self._running_count.set(len(self._trials))

    def progressed(self, trial: Trial, report: Mapping[str, Any]) -> None:
        """The trial has done more steps; figures that are None stay as they were."""
        name, encoder = trial.plugin.name, trial.config.encoder
        labels = {"method": name, "encoder": encoder, "trial": trial.label}
        for field, gauge in self._figures.items():
            if report.get(field) is not None:
                gauge.set(report[field], labels)
        # Ray forgets what it does not hear every few seconds.
        self._running_count.set(len(self._trials))

    def ended(self, trial: Trial, report: Mapping[str, Any]) -> None:
        self._leave(trial, report["reason"] if report["status"] == "failed" else None)
        self._ended[report["status"]].inc()

    def postponed(self, trial: Trial, why: str) -> None:
        self._leave(trial, None)

    def preparing(self, title: str) -> None:
        self._begin(title)

    def prepared(self, title: str, reason: str | None, waiting: int) -> None:
        self._end(title, reason)
        if reason is None:
            self._built.inc()
            if waiting:
                self._shared.inc(waiting)

    def _leave(self, trial: Trial, reason: str | None) -> None:
        self._end(trial.label, reason)
        self._trials.discard(trial.label)
        self._running_count.set(len(self._trials))

    def _begin(self, name: str) -> None:
        if name not in self._running:  # else its first worker was lost
            number = next(self._numbers)
            self._running[name] = (number, self._tasks.run.options(name=name).remote(number))

    def _end(self, name: str, reason: str | None) -> None:
        number, _ = self._running.pop(name, (None, None))
        if number is not None:
            self._tasks.end.options(enable_task_events=False).remote(number, reason)


def where_it_is(url: str, folder: Path) -> str:
    """A sentence with the dashboard's address, and with what it takes to open the page.

    `url`: HOST:PORT of the page; "" when there is none. `folder`: a folder that only this user can
    read. The token of a local Ray is written there.
    """
    if not url:
        return "This cluster has no dashboard; `ray start --head --include-dashboard=true` has one."
    address = f"Ray dashboard: http://{url}"
    if not os.environ.get("RAY_ADDRESS"):
        file = folder / "dashboard-token"
        file.touch(mode=0o600)
        file.write_text(os.environ["RAY_AUTH_TOKEN"], encoding="utf-8")
        return f"{address} (this machine only; the page asks for a token, which is in {file})"
    return f"{address} (where it asks for a token, `ray get-auth-token` prints that of the cluster)"


def _trial_tasks() -> type:
    """The class of the actor through which the dashboard lists trials under their names.

    A worker runs many trials one after the other, and Tune names neither workers nor their tasks.
    So this actor has a task for each trial, with the name of the trial, which does nothing but wait
    until the trial has ended. A class of a function travels as a whole, so the actor imports
    nothing of harness, and takes little memory.
    """

    class TrialTasks:
        """One task for each trial that runs; a task fails when its trial fails."""

        def __init__(self) -> None:
            self._ended: dict[int, asyncio.Event] = defaultdict(asyncio.Event)
            self._reasons: dict[int, str] = {}

        async def run(self, number: int) -> None:
            """Wait until trial `number` has ended. Raises RuntimeError with its reason, if any."""
            await self._ended[number].wait()
            del self._ended[number]
            if reason := self._reasons.pop(number, None):
                raise RuntimeError(reason)

        async def end(self, number: int, reason: str | None) -> None:
            """Trial `number` has ended. `reason`: why it has failed; None when it has not."""
            if reason is not None:
                self._reasons[number] = reason
            self._ended[number].set()

    TrialTasks.__qualname__ = "TrialTasks"  # the dashboard prints it
    return TrialTasks
