"""The run of Ray Tune that does the jobs of a sweep.

Tune asks a searcher for jobs, and tells a callback what becomes of them. Between the two stand
`Jobs`: those that tasks of the sweep await, and what happens when a worker dies.
"""

import asyncio
import shlex
import shutil
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray import tune
from ray.tune.experiment import Trial as TuneTrial
from ray.tune.progress_reporter import TrialProgressCallback
from ray.tune.schedulers import FIFOScheduler
from ray.tune.search import Searcher
from ray.tune.trainable import wrap_function

from harness.errors import UserError, counted
from harness.sweeps.cluster.capacity import GROWTH_SECONDS, LOOK_SECONDS, Capacity, fitting, written
from harness.sweeps.cluster.stopping import Stopping
from harness.sweeps.pool import POSTPONED, Hearing, Job, Report
from harness.sweeps.screen.watcher import SweepWatcher
from harness.sweeps.workers import worker
from harness.sweeps.workers.gpu_share import GpuShares
from harness.sweeps.workers.limits import stopped, with_log
from harness.trials.output import wait_for_end
from harness.trials.store import Store
from harness.trials.store_folders import store_option
from harness.trials.trial import failed

UNPLACED_SECONDS = 45.0
"""Time after which a job without a worker is said to wait for one"""
RUNS = 2
"""Number of times that a job begins, if its worker dies: a second death is the trial's own doing"""
STARTS = 5
"""Number of workers that a job gets which die before it begins.

A machine that is lost gets workers for some seconds more, until Ray misses it."""

ENDED_PROCESSES = (
    "the worker died: Ray ended it, because its machine ran out of memory",
    "the worker died: it ended itself, or something killed it",
)
"""Deaths of a worker alone; its machine goes on"""
OUTPUT_SECONDS = 5.0
"""Time in which the watchdog of a dead worker writes the end of its output, and needs far less"""


@dataclass
class Running:
    """A job that Tune has, or will ask for next."""

    job: Job
    hearing: Hearing
    ended: asyncio.Future[Report]
    waits: float | None = None
    """Since when it waits for its workers; None: Tune has not asked for it, or it has them"""
    unplaced: float | None = None
    """Since when the machines have no room for it, also if nothing else ran"""


class _Unsaved:
    """Keeps nothing of itself: Tune writes its parts into files, but none is ever restored."""

    def __getstate__(self) -> dict[str, Any]:
        return {}


class Jobs(_Unsaved, TrialProgressCallback):  # type: ignore[misc]
    """The jobs of a sweep that Tune does, or will ask for next; Tune says what becomes of them.

    It stands in the place of Tune's own reporter, which would keep every trial that has ended.
    """

    def __init__(
        self, store: Store, sweep: str, shares: GpuShares, watcher: SweepWatcher,
        capacity: Capacity, cpus: float, node: str | None = None,
    ) -> None:  # fmt: skip
        """`sweep`: identifier of this run of a sweep. `cpus`: of each worker.

        `watcher`: hears of jobs that wait long for a worker, and of a sweep that stops. `node`:
        Ray's name of this machine; None: no other one takes jobs.
        """
        self.store, self.sweep, self.shares, self.node = store, sweep, shares, node
        self._watcher, self._capacity, self._cpus = watcher, capacity, cpus
        self.next: deque[Running] = deque()
        """The jobs for which Tune has not asked yet"""
        self.running: dict[str, Running] = {}
        """Key -> every job that has not ended"""
        self.stopping = Stopping(store, sweep, self.running, watcher.stopping)
        self._begun: set[str] = set()
        """The keys of the jobs that have begun"""
        self._deaths: Counter[tuple[str, bool]] = Counter()
        """(key, whether it had begun) -> how often its worker has died"""
        self._looked = 0.0
        self._said: set[str] = set()
        """Sentences about what jobs wait for"""

    def give(self, job: Job, hearing: Hearing) -> asyncio.Future[Report]:
        """Give Tune a job; the result is the report of its end."""
        running = Running(job, hearing, asyncio.get_running_loop().create_future())
        self.running[job.key] = running
        self.next.append(running)
        return running.ended

    def next_settings(self) -> dict[str, Any]:
        """The next job as Tune hands it to a worker, with its share of a GPU."""
        running = self.next.popleft()
        running.waits = time.monotonic()
        return worker.settings_of(running.job, self.shares.begun(running.job), self.node)

    # What Tune says

    def on_step_end(self, iteration: int, trials: list[Any], **_: Any) -> None:
        self.stopping.look()

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        """A worker has the job."""
        key = trial.config["key"]
        self._begun.add(key)
        self.running[key].waits = self.running[key].unplaced = None
        self.running[key].hearing.started()

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **_: Any
    ) -> None:
        """A job trains; a trial that is to be pruned finds a note of it."""
        key = trial.config["key"]
        if "step" in result and self.running[key].hearing.progressed(result):
            self.store.leave_note(self.store.running(key) / worker.PRUNE)

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        """A worker has ended a job, or has put it off."""
        key, report = trial.config["key"], trial.last_result
        if key not in self.running:
            return  # it waited too long for its workers
        job = self.running[key].job
        self.shares.ended(key, job.trial, report)
        if not report.get("recorded", True):
            report = self._recorded_failure(job, report["reason"])
        self._resolve(key, report)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        """The worker of a job has died."""
        key = trial.config["key"]
        if key not in self.running:
            return
        job, running, why = self.running[key].job, self.store.running(key), death(trial.error_file)
        self.shares.ended(key, job.trial, {})
        ended = stopped(running, self.sweep)
        if not ended and self._runs_again(key):
            reason = f"{why}; it runs again"
            self._resolve(key, {"status": POSTPONED, "reason": reason, "waits_for": key})
            return
        log = self.store.log(key)
        if ended or why in ENDED_PROCESSES:  # its watchdog writes the end of its output now
            wait_for_end(log, OUTPUT_SECONDS)
        report = self._recorded_failure(job, with_log(ended or why, log))
        if ended and not job.part:  # one that died by itself keeps its checkpoint
            shutil.rmtree(running, ignore_errors=True)
        self._resolve(key, report)

    def _resolve(self, key: str, report: Report) -> None:
        running = self.running.pop(key)
        self._begun.discard(key)
        # A trial that gives way to the end of the sweep is not to begin again.
        if running.ended.done() or (self.stopping.asked and report["status"] == POSTPONED):
            return
        logs = shlex.join(["harness", "logs", key[:10], *store_option(self.store.place)])
        running.ended.set_result({**report, "logs": logs})

    def _runs_again(self, key: str) -> bool:
        """Whether a job whose worker has died gets another one."""
        begun = key in self._begun
        self._begun.discard(key)
        self._deaths[key, begun] += 1
        return self._deaths[key, begun] < (RUNS if begun else STARTS)

    def _recorded_failure(self, job: Job, reason: str) -> Report:
        """Record that a trial failed, which its worker has not done; return the report of it."""
        # A worker may die after it has written its record, and the store keeps a finished one.
        try:
            if not job.part:
                self.store.write(failed(job.trial, reason, here=False))
        except UserError as error:  # a full disk does not stop the trials that can still be stored
            reason = f"{reason}; {error}"
        return {"status": "failed", "reason": reason, "dev": None}

    def waited_too_long(self) -> set[str]:
        """Say what jobs lack that have waited long for their workers.

        Returns the keys of those for which there has been no machine for too long; they have
        failed. It looks every second.
        """
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return set()
        self._looked, late = now, set[str]()
        for key, running in list(self.running.items()):
            if running.waits is None or now - running.waits < UNPLACED_SECONDS:
                continue
            bundle = {"CPU": self._cpus, "GPU": self.shares.least_of(running.job)}
            wanted, room = running.job.workers, fitting(bundle, self._capacity.machines)
            lacks = (
                f"{running.job.trial.label} has waited {UNPLACED_SECONDS:.0f} s for its "
                f"{counted(wanted, 'worker')} of {written(bundle)} each"
            )
            if room >= wanted:  # others have the room now, such as longer trials
                running.unplaced = None
                if not self._begun:
                    self._notice(f"{lacks}: others use the machines, or workers begin slowly.")
                continue
            running.unplaced = running.unplaced or now
            lacks += f", and all machines have room for {room} of them"
            limit = f"{GROWTH_SECONDS / 60:g} minutes"
            if now - running.unplaced < GROWTH_SECONDS:
                self._notice(f"{lacks}. It goes on when there are enough, or fails in {limit}.")
                continue
            late.add(key)
            self.shares.ended(key, running.job.trial, {})
            self._resolve(key, self._recorded_failure(running.job, f"{lacks}, for {limit}"))
        return late

    def _notice(self, sentence: str) -> None:
        """Say something once, until a job begins."""
        if sentence not in self._said:
            self._said.add(sentence)
            self._watcher.notice(sentence)


class TuneSearcher(_Unsaved, Searcher):  # type: ignore[misc]
    """Gives Tune the jobs that somebody awaits."""

    def __init__(self, jobs: Jobs, turn: Callable[[], bool]) -> None:
        """`turn`: lets the tasks of the sweep go on; whether it has ended."""
        super().__init__()
        self.jobs, self.turn = jobs, turn

    def suggest(self, trial_id: str) -> Any:
        """The next job for a worker; None when there is none at this moment."""
        if not self.jobs.next and self.turn():
            return Searcher.FINISHED
        if not self.jobs.next or self.jobs.shares.waiting:
            return None
        return self.jobs.next_settings()

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Do nothing, because the callback says what has ended."""

    def save_to_dir(self, checkpoint_dir: str, session_str: str = "default") -> None:
        """Save nothing: the store is the ledger."""


class TuneScheduler(_Unsaved, FIFOScheduler):  # type: ignore[misc]
    """A free worker takes the first trial for which no other worker is starting.

    It also takes out of Tune what has ended, because Tune shows itself to a scheduler alone.

    Tune's own order gives it the first trial of all. If a worker starts for that one, then Tune
    ends this worker and starts another for the next trial; a worker needs seconds for its imports,
    so a sweep of short trials would have one worker, and would start and end others all the time.
    """

    def __init__(self, slots: Callable[[], int], late: Callable[[], set[str]]) -> None:
        """`slots`: says how many trials run at a time. `late`: the keys of trials to give up."""
        super().__init__()
        self.slots, self.late = slots, late

    def choose_trial_to_run(self, tune_controller: Any) -> Any:
        """The trial that runs next; None when none waits."""
        if late := self.late():
            for trial in list(tune_controller.get_trials()):
                if trial.status == TuneTrial.PENDING and trial.config["key"] in late:
                    tune_controller.stop_trial(trial)
        forget_ended(tune_controller)
        trials = tune_controller.get_trials()
        waiting = [trial for trial in trials if trial.status == TuneTrial.PENDING]
        running = sum(trial.status == TuneTrial.RUNNING for trial in trials)
        # All slots but those of running trials and of the free worker may have a starting one.
        starting = max(0, self.slots() - running - 1)
        return waiting[min(starting, len(waiting) - 1)] if waiting else None


def forget_ended(controller: Any) -> None:
    """Take the trials that have ended out of all that Tune keeps.

    It keeps 80 kB of each until its end, and looks at all of them in every step.
    """
    controller = controller._tune_controller
    for kept in (controller._stopped_trials, controller._failed_trials):
        # A worker that is being ended still belongs to its trial.
        ended = {trial for trial in kept if trial not in controller._trial_to_actor}
        if ended:
            kept -= ended
            controller._live_trials -= ended
            controller._trials_to_cache -= ended
            controller._trials[:] = [each for each in controller._trials if each not in ended]


def trial_worker(
    run: Callable[[dict[str, Any]], None],
    resources: Callable[[dict[str, Any]], tune.PlacementGroupFactory],
) -> Any:
    """A class for Tune whose objects run trials with `run`.

    `resources`: what a job occupies, given its settings. A worker has many calls per trial. The
    dashboard does not list them, so that the trials themselves (`harness.sweeps.cluster.dashboard`)
    are what it lists.
    """

    # Ray has no types for what `wrap_function` gives, so a type checker takes it for anything.
    class TrialWorker(wrap_function(run, name="trial worker")):  # type: ignore[misc]
        @classmethod
        def default_resource_request(cls, config: dict[str, Any]) -> tune.PlacementGroupFactory:
            return resources(config)

    for name in ("train", "reset", "get_auto_filled_metrics", "stop"):
        ray.method(enable_task_events=False)(getattr(TrialWorker, name))
    TrialWorker.__qualname__ = "TrialWorker"  # the dashboard prints it
    return TrialWorker


def death(error_file: str | None) -> str:
    """Why a worker died, from what Ray says about it."""
    try:
        text = Path(error_file or "").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    if "WorkerLost: " in text:
        return text.rpartition("WorkerLost: ")[2].strip()
    if "running low on memory" in text or "memory pressure" in text:
        return ENDED_PROCESSES[0]
    if "node has died" in text:
        return "the worker died: its machine was lost"
    return ENDED_PROCESSES[1]
