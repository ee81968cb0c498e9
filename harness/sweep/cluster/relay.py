"""What stands between Ray Tune and a sweep: Tune asks here for jobs, and tells here what happened.

`harness.sweep.cluster.ray_engine` imports Tune and Ray, and sets their environment before.
"""

import shlex
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

from ray import tune
from ray.tune.search import Searcher

from harness.errors import UserError
from harness.sweep.queue.stopping import Stopping
from harness.sweep.queue.trial_queue import TrialQueue
from harness.sweep.screen.watcher import TrialWatcher
from harness.sweep.travelling.local_files import LocalFiles
from harness.sweep.workers import worker
from harness.sweep.workers.gpu_share import GpuShares
from harness.sweep.workers.limits import stopped, with_log
from harness.trials.store import SMALL_FILES
from harness.trials.store_folders import store_option
from harness.trials.trial import Trial, failed

MOST_JOBS = 1000
"""Jobs of one run of Tune, which keeps some 80 kB of each to its end"""
RUNS = 2
"""How often a trial begins, if its worker dies"""
STARTS = 5
"""How often a trial gets a worker that dies before it begins.

A machine that is lost gets workers for some seconds more, until Ray misses it."""


class Feed(Searcher):  # type: ignore[misc]
    """Gives Tune jobs of a queue, at most MOST_JOBS, with the lists of the files that travel."""

    def __init__(self, queue: TrialQueue, shares: GpuShares, files: LocalFiles | None) -> None:
        super().__init__()
        self.queue, self.shares, self.files = queue, shares, files
        self._left = MOST_JOBS

    def __getstate__(self) -> dict[str, Any]:
        """Keep nothing: Tune writes its searcher into a file, but none is ever restored."""
        return {}

    def suggest(self, trial_id: str) -> Any:
        """The next job for a worker; None when there is none at this moment."""
        if not self._left:
            return Searcher.FINISHED
        if self.shares.waiting:
            return None
        found = self.queue.next()
        if found is None:
            return Searcher.FINISHED if self.queue.finished else None
        self._left -= 1
        return worker.settings_of(found, self.shares.begun(found), self.files)

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Do nothing, because the relay tells the queue what has ended."""

    def save_to_dir(self, checkpoint_dir: str, session_str: str = "default") -> None:
        """Save nothing: the store is the ledger."""


class Relay(tune.Callback):  # type: ignore[misc]
    """Passes Tune's events on to the queue and to the watcher.

    The trial of a worker that died runs once more, and then it is recorded as failed.
    """

    def __init__(
        self,
        queue: TrialQueue,
        shares: GpuShares,
        watcher: TrialWatcher,
        stopping: Stopping,
        sweep: str,
    ) -> None:
        self.queue, self.watcher, self.stopping, self.sweep = queue, watcher, stopping, sweep
        self.store, self.shares = queue.store, shares
        self.ended = 0
        self._begun: set[str] = set()
        """The keys of the jobs that have begun"""
        self._deaths: Counter[tuple[str, bool]] = Counter()
        """(key, whether it had begun) -> how often its worker has died"""

    def __getstate__(self) -> dict[str, Any]:
        """Keep nothing: Tune takes snapshots of its callbacks, but none is ever restored."""
        return {}

    def on_step_end(self, iteration: int, trials: list[Any], **_: Any) -> None:
        self.stopping.look()

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        self._begun.add(trial.config["key"])
        if part := trial.config["part"]:
            self.watcher.preparing(part["title"])
        else:
            self.watcher.started(self.queue.trial(trial.config["key"]))

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **_: Any
    ) -> None:
        if "step" not in result:
            return
        key = trial.config["key"]
        if self.queue.progressed(key, result):
            self.store.leave_note(self.store.running(key) / worker.PRUNE)
        if not trial.config["part"]:
            self.watcher.progressed(self.queue.trial(key), result)

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        key, report = trial.config["key"], trial.last_result
        ours = self.queue.trial(key)
        self.shares.ended(key, ours, report)
        if report.get("lost") and not self._runs_again(key):
            report = self._recorded_failure(ours, report["reason"])
        if report["status"] == worker.POSTPONED:
            self.queue.postponed(key, report["reason"])
            if not self.stopping.asked:
                self.watcher.postponed(ours, report["reason"])
        elif part := trial.config["part"]:
            waiting = self.queue.waiting_for(key)
            self.queue.ended(key, report)
            self.watcher.prepared(part["title"], report["reason"], waiting)
        else:
            if not report.get("recorded", True):
                report = self._recorded_failure(ours, report["reason"])
            self.queue.ended(key, report)
            self.watcher.ended(ours, {**report, "logs": self._logs(key)})
            self.ended += 1
            if self.ended % SMALL_FILES == 0:
                self.store.compact()

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        key = trial.config["key"]
        ours = self.queue.trial(key)
        self.shares.ended(key, ours, {})
        running, died = self.store.running(key), death(trial.error_file)
        ended = stopped(running, self.sweep)
        if not ended and self._runs_again(key):
            self.queue.postponed(key, f"{ours.label}: {died}")
            if not self.stopping.asked:
                self.watcher.postponed(ours, f"{died}; it runs again")
            return
        reason = with_log(ended or died, self.store.log(key))
        if part := trial.config["part"]:
            self.queue.ended(key, {})
            self.watcher.prepared(part["title"], reason, 0)
            return
        report = self._recorded_failure(ours, reason)
        if ended:  # one that died by itself keeps its checkpoint
            shutil.rmtree(running, ignore_errors=True)
        self.queue.ended(key, report)
        self.watcher.ended(ours, {**report, "logs": self._logs(key)})

    def _logs(self, key: str) -> str:
        """The command that prints the output of a trial."""
        return shlex.join(["harness", "logs", key[:10], *store_option(self.store.place)])

    def _runs_again(self, key: str) -> bool:
        """Whether a job whose worker has died gets another one."""
        begun = key in self._begun
        self._begun.discard(key)
        self._deaths[key, begun] += 1
        return self._deaths[key, begun] < (RUNS if begun else STARTS)

    def _recorded_failure(self, trial: Trial, reason: str) -> dict[str, Any]:
        """Record that a trial failed, which its worker has not done; return the report of it."""
        # A worker may die after it has written its record, and the store keeps a finished one.
        try:
            self.store.write(failed(trial, reason, here=False))
        except UserError as error:  # a full disk does not stop the trials that can still be stored
            reason = f"{reason}; {error}"
        return {"status": "failed", "reason": reason, "dev": None}


def death(error_file: str | None) -> str:
    """Why a worker died, from what Ray says about it."""
    try:
        said = Path(error_file or "").read_text(encoding="utf-8", errors="replace")
    except OSError:
        said = ""
    if "running low on memory" in said or "memory pressure" in said:
        return "the worker died: Ray ended it, because its machine ran out of memory"
    if "node has died" in said:
        return "the worker died: its machine was lost"
    return "the worker died: it ended itself, or something killed it"
