"""Runs trials on Ray Tune: on a local Ray, or on the cluster that RAY_ADDRESS names.

The store keeps the results; what Tune keeps is deleted after the sweep.
"""

import os
import secrets
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

os.environ.update(
    RAY_USAGE_STATS_ENABLED="0",  # no telemetry
    RAY_CHDIR_TO_TRIAL_DIR="0",  # paths of the command line stay valid in a worker
    RAY_AIR_NEW_OUTPUT="0",
    RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="1",  # a trial without a GPU sees none
    # Ray starts workers at niceness 15, so that they starve when anything else runs.
    RAY_worker_niceness=str(os.getpriority(os.PRIO_PROCESS, 0)),
    TUNE_DISABLE_AUTO_CALLBACK_LOGGERS="1",
    TUNE_DISABLE_SIGINT_HANDLER="1",  # harness.cli handles Ctrl-C
    TUNE_GLOBAL_CHECKPOINT_S="86400",  # no snapshots: the store is the ledger
    TUNE_DISABLE_STRICT_METRIC_CHECKING="1",
)
if not os.environ.get("RAY_ADDRESS"):
    # The ports of a local Ray are open to the network, so only this process and its workers may
    # know the token. Ray reads it when it is imported.
    os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))

import ray
from ray import tune
from ray.tune.search import Searcher

from harness.errors import UserError
from harness.sweep import worker
from harness.sweep.stopping import let_give_way
from harness.sweep.suggestions import Sampling, Suggestions
from harness.sweep.trial_queue import Listed, TrialQueue, TrialSource
from harness.sweep.watcher import TrialWatcher
from harness.trials.store import Store
from harness.trials.trial import Trial, failed


@dataclass(frozen=True)
class Resources:
    """The CPU cores and GPUs that one trial occupies."""

    cpus: float = 1
    gpus: float | None = None
    """None: one GPU where the cluster has GPUs, else no GPU"""


class Engine:
    """A connection to Ray for the length of a sweep."""

    def __init__(self, store: Store, resources: Resources) -> None:
        self.store = store
        self.resources = resources

    def __enter__(self) -> "Engine":
        """Connect to Ray. Raises UserError when no machine of the cluster can hold a trial."""
        self._folder = Path(tempfile.mkdtemp(prefix="harness-tune-"))
        if os.environ.get("RAY_ADDRESS"):
            ray.init(log_to_driver=False, logging_level="ERROR")
        else:
            ray.init("local", log_to_driver=False, logging_level="ERROR", include_dashboard=False)
        try:
            self.resources = _affordable(self.resources)
        except UserError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        ray.shutdown()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def slots(self) -> int:
        """How many trials run at a time."""
        total, gpus = ray.cluster_resources(), self.resources.gpus
        slots = int(total.get("CPU", 0) / self.resources.cpus)
        return max(1, min(slots, int(total.get("GPU", 0) / gpus)) if gpus else slots)

    def run(self, trials: Mapping[str, Trial], watcher: TrialWatcher) -> None:
        """Run every trial (key -> trial) once.

        Afterwards the store has all records, also those of failures.
        """
        self._fit(Listed(trials), watcher)

    def sample(self, sampling: Sampling, watcher: TrialWatcher) -> None:
        """Let an Optuna sampler suggest configurations until the budget is spent."""
        self._fit(Suggestions(sampling, self.slots), watcher)

    def _fit(self, source: TrialSource, watcher: TrialWatcher) -> None:
        queue = TrialQueue(source, self.store)
        cpus, gpus = self.resources.cpus, self.resources.gpus or 0
        bound = partial(worker.run_one, store=str(self.store.folder.resolve()), cpus=cpus)
        tuner = tune.Tuner(
            tune.with_resources(bound, {"cpu": cpus, "gpu": gpus}),
            tune_config=tune.TuneConfig(
                search_alg=_Feed(queue),
                num_samples=-1,  # until the queue is empty
                reuse_actors=True,  # imports and start-up once per worker, not per trial
                trial_name_creator=_name,
                trial_dirname_creator=lambda trial: str(trial.trial_id),
            ),
            run_config=tune.RunConfig(
                storage_path=str(self._folder),
                verbose=0,
                # This counts lost workers and nodes. A failed trial is a record, not an error.
                failure_config=tune.FailureConfig(max_failures=1),
                callbacks=[_Relay(queue, watcher, self.store)],
            ),
        )
        try:
            tuner.fit()
        except KeyboardInterrupt:
            watcher.stopping(len(queue.given))
            let_give_way(self.store, queue.given)
            raise


class _Feed(Searcher):  # type: ignore[misc]
    """Gives Tune the trials of a queue."""

    def __init__(self, queue: TrialQueue) -> None:
        super().__init__()
        self.queue = queue

    def suggest(self, trial_id: str) -> Any:
        """The next trial for a worker; None when there is none at this moment."""
        found = self.queue.next()
        if found is None:
            return Searcher.FINISHED if self.queue.finished else None
        key, trial = found
        return {"key": key, "trial": worker.plain_trial(trial)}

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Do nothing, because the relay tells the queue what has ended."""

    def save_to_dir(self, checkpoint_dir: str, session_str: str = "default") -> None:
        """Save nothing: the store is the ledger."""


class _Relay(tune.Callback):  # type: ignore[misc]
    """Passes Tune's events on to the queue and to the watcher.

    The trial of a worker that died is recorded as failed.
    """

    def __init__(self, queue: TrialQueue, watcher: TrialWatcher, store: Store) -> None:
        self.queue, self.watcher, self.store = queue, watcher, store

    def __getstate__(self) -> dict[str, Any]:
        """Keep nothing: Tune takes snapshots of its callbacks, but none is ever restored."""
        return {}

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        self.watcher.started(worker.given_trial(trial.config))

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **_: Any
    ) -> None:
        if "step" in result:
            self.queue.progressed(trial.config["key"])
            self.watcher.progressed(worker.given_trial(trial.config), result)

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        key, ours, report = trial.config["key"], worker.given_trial(trial.config), trial.last_result
        if report["status"] == worker.POSTPONED:
            self.queue.postponed(key, report["reason"])
            self.watcher.postponed(ours, report["reason"])
        else:
            self.queue.ended(key, report)
            self.watcher.ended(ours, report)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        key, ours = trial.config["key"], worker.given_trial(trial.config)
        reason = f"the worker died: {str(trial.get_error() or 'killed').strip().splitlines()[-1]}"
        # A worker may die after it has written its record, and the store keeps a finished one.
        self.store.write(failed(ours, reason))
        report = {"status": "failed", "reason": reason, "dev": None}
        self.queue.ended(key, report)
        self.watcher.ended(ours, report)


def _name(trial: Any) -> str:
    """The name of a trial in the Ray dashboard: method, setting, encoder, seed."""
    return f"{worker.given_trial(trial.config).label} {trial.trial_id[-5:]}".replace(" ", "_")


def _affordable(wanted: Resources) -> Resources:
    """The resources with the number of GPUs filled in.

    Raises UserError when no machine has as many CPUs and GPUs.
    """
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    gpus = wanted.gpus
    if gpus is None:
        gpus = 1 if any(node.get("GPU", 0) for node in nodes) else 0
    if any(node.get("CPU", 0) >= wanted.cpus and node.get("GPU", 0) >= gpus for node in nodes):
        return Resources(wanted.cpus, gpus)
    most = max(nodes, key=lambda node: (node.get("GPU", 0), node.get("CPU", 0)))
    raise UserError(
        f"no machine has {wanted.cpus:g} CPUs and {gpus:g} GPUs for one trial: the largest has "
        f"{most.get('CPU', 0):g} and {most.get('GPU', 0):g}; lower --cpus-per-trial or "
        f"--gpus-per-trial"
    )
