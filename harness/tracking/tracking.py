"""Passes what trials report on to a tracker, in a thread of the process that hears the reports.

This is the process of the sweep or of `harness run`. So a tracker has one writer for all trials of
a sweep, wherever they run, and neither a slow nor a broken one can hold up a trial.
"""

import json
import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from harness.errors import UserError, explained
from harness.files import written_whole
from harness.sweeps.screen.watcher import TrialWatcher
from harness.tracking.trackers import TRACKERS, About, Begin, Scalar, TrackedRun
from harness.training.progress import Point
from harness.trials.record import Record
from harness.trials.store import Store
from harness.trials.trial import Trial, key

LAST_SECONDS = 120.0
"""Seconds that the end of a sweep waits for what is still to be written"""
TRACKED_COSTS = (
    "training_seconds", "wall_seconds", "sentences_per_second", "peak_host_memory_mib",
    "peak_gpu_memory_mib",
)  # fmt: skip
"""Fields of a record that a tracker gets beside its scores"""


@dataclass
class _Open:
    """The run of a trial that runs now."""

    run: TrackedRun
    known: int
    """The last step that it had from earlier attempts"""
    step: int
    """The last step that it has"""


class Tracking(TrialWatcher):
    """Informs a tracker of trials. It is used as a context manager.

    What fails is said once and ends the tracking of that trial; the trial goes on.
    """

    def __init__(self, name: str, store: Store, group: str, warn: Callable[[str], None]) -> None:
        """`group`: the name of the sweep. `warn`: called with a sentence, from another thread.

        `name`: of a tracker that passes `harness.tracking.trackers.check`.
        """
        self._name, self._store, self._group, self._warn = name, store, group, warn
        self._begin_run: Begin | None = None
        self._open: dict[str, _Open] = {}
        self._started: set[str] = set()
        """The keys of trials whose runs begin with their first report, if this process gets one"""
        self._said: set[str] = set()
        self._events: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="tracking", daemon=True)

    def __enter__(self) -> "Tracking":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._events.put(None)
        self._thread.join(LAST_SECONDS)
        if self._thread.is_alive():
            self._warn(f"--track {self._name} has not written everything after two minutes")

    def started(self, trial: Trial) -> None:
        """Expect reports of a trial; it may turn out that another process runs it, or has."""
        self._events.put(partial(self._expect, trial))

    def progressed(self, trial: Trial, report: Mapping[str, Any]) -> None:
        """Keep the new values along its training."""
        if report["points"]:
            self._events.put(partial(self._log, trial, report["points"]))

    def ended(self, trial: Trial, report: Mapping[str, Any]) -> None:
        """Keep the scores of its record, unless another process has run it."""
        keep = self._end if report.get("ran", True) else self._leave
        self._events.put(partial(keep, trial))

    def postponed(self, trial: Trial, why: str) -> None:
        """Leave its run, with which a later attempt goes on."""
        self._events.put(partial(self._leave, trial))

    def _work(self) -> None:
        while (event := self._events.get()) is not None:
            with self._apart():
                event()
        for trial_key in [*self._open]:
            with self._apart(trial_key):
                self._open.pop(trial_key).run.leave()

    def _expect(self, trial: Trial) -> None:
        self._leave(trial)
        self._started.add(key(trial))

    def _begin(self, trial: Trial) -> None:
        """Begin the run of a trial, or go on with it."""
        about = _about(trial, self._group)
        note = self._note(about.key)
        identity, step = None, -1
        if note.exists():
            known = json.loads(note.read_text(encoding="utf-8"))
            identity, step = known["run"], known["step"]
        if self._begin_run is None:
            self._begin_run = TRACKERS[self._name](self._store.tracking_folder)
        self._open[about.key] = _Open(self._begin_run(about, identity), step, step)
        self._keep(about.key)

    def _log(self, trial: Trial, points: list[Point]) -> None:
        open_run = self._of(trial)
        if open_run is None:
            return
        with self._apart(key(trial)):
            # After a kill, a training repeats the steps since its checkpoint.
            steps: dict[int, dict[str, float]] = {}
            for point in points:
                if point["step"] > open_run.known:
                    steps.setdefault(point["step"], {})[point["metric"]] = point["value"]
            open_run.run.log(steps)
            open_run.step = max(open_run.step, *steps, -1)
            self._keep(key(trial))

    def _end(self, trial: Trial) -> None:
        open_run, record = self._of(trial), self._store.get(key(trial))
        if open_run is None or record is None:
            return
        with self._apart(key(trial)):
            last_step = record.steps or max(open_run.step, 0)
            open_run.run.end(last_step, final_scores(record), record.status)
            self._keep(key(trial))
        self._open.pop(key(trial), None)

    def _leave(self, trial: Trial) -> None:
        self._started.discard(key(trial))
        if open_run := self._open.pop(key(trial), None):
            open_run.run.leave()

    def _of(self, trial: Trial) -> _Open | None:
        if key(trial) in self._started:
            self._started.remove(key(trial))
            self._begin(trial)
        return self._open.get(key(trial))

    def _note(self, trial_key: str) -> Path:
        """The file that says which run a trial has, and how far it is."""
        return self._store.tracking_folder / "runs" / f"{trial_key}-{self._name}.json"

    def _keep(self, trial_key: str) -> None:
        open_run = self._open[trial_key]
        with written_whole(self._note(trial_key)) as file:
            note = {"run": open_run.run.identity, "step": open_run.step}
            file.write_text(json.dumps(note), encoding="utf-8")

    @contextmanager
    def _apart(self, trial_key: str = "") -> Iterator[None]:
        """In the block, what fails is said, and the run of this trial gets no more."""
        try:
            with explained(f"--track {self._name}: "):
                yield
        except UserError as why:
            self._open.pop(trial_key, None)
            if str(why) not in self._said:
                self._said.add(str(why))
                self._warn(f"{why}; the trials go on, and what this one reports is not tracked")


def final_scores(record: Record) -> dict[str, float]:
    """Scores of a finished trial for a tracker, under the names of the flat table."""
    scores = {f"dev.{name}": value for name, value in record.dev.items()}
    scores |= {f"test.{name}": value for name, value in record.test.items()}
    return scores | {name: getattr(record, name) for name in TRACKED_COSTS if getattr(record, name)}


def _about(trial: Trial, group: str) -> About:
    values = trial.config.deciding()
    configuration: dict[str, Scalar] = {
        name: value if isinstance(value, bool | int | float | str) else json.dumps(value)
        for name, value in values.items()
    }
    own: dict[str, Scalar] = {
        "method": trial.plugin.name, "seed": trial.seed, "role": trial.role, "key": key(trial),
    }  # fmt: skip
    return About(key(trial), trial.label, group, trial.role, configuration | own)
