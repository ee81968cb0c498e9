"""Runs trials on Ray Tune: on a local Ray, or on the cluster that RAY_ADDRESS names.

The store keeps the results; what Tune keeps is deleted after the sweep.
"""

import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Mapping
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

import optuna
import ray
from ray import tune
from ray.tune.search.optuna import OptunaSearch

from harness.errors import UserError
from harness.sweep import worker
from harness.sweep.axes import SamplerRange, Values
from harness.sweep.space import Repeats, Sampler
from harness.sweep.watcher import TrialWatcher
from harness.trials.store import Store
from harness.trials.trial import Trial, failed

optuna.logging.set_verbosity(optuna.logging.WARNING)

SAMPLERS = {
    "tpe": optuna.samplers.TPESampler,
    "random": optuna.samplers.RandomSampler,
    "qmc": optuna.samplers.QMCSampler,
}


@dataclass(frozen=True)
class Resources:
    """The CPU cores and GPUs that one trial occupies."""

    cpus: float = 1
    gpus: float | None = None
    """None: one GPU where the cluster has GPUs, else no GPU"""


@dataclass(frozen=True)
class Sampling:
    """A sampler's ranges and budget, and what it already knows."""

    template: Trial
    """The trial that every suggestion completes"""
    repeats: Repeats
    """The seeds and subsets on which each configuration is run"""
    ranges: Mapping[str, SamplerRange | list[Any]]
    sampler: Sampler
    budget: int
    """Number of configurations still to try"""
    known: list[tuple[Values, float]]
    """Configurations that were tried before, with their mean dev scores"""


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

    def run(self, trials: list[Trial], watcher: TrialWatcher) -> None:
        """Run every trial once. Afterwards the store has all records, also those of failures."""
        plain = [worker.plain_trial(trial) for trial in trials]
        relay = _Relay(watcher, self.store, worker.given_trial)
        self._fit(worker.run_one, relay, tune.TuneConfig(), {"trial": tune.grid_search(plain)})

    def sample(self, sampling: Sampling, watcher: TrialWatcher) -> None:
        """Let an Optuna sampler suggest configurations until the budget is spent."""
        sampler, known = sampling.sampler, sampling.known
        searcher = _Searcher(
            {name: _distribution(axis) for name, axis in sampling.ranges.items()},
            metric="score",
            mode="max",
            # A resumed search must not suggest the points of its first part again.
            sampler=SAMPLERS[sampler.name](seed=sampler.seed + len(known)),
            points_to_evaluate=[values for values, _ in known] or None,
            evaluated_rewards=[score for _, score in known] or None,
        )
        template, repeats = worker.plain_trial(sampling.template), sampling.repeats
        self._fit(
            partial(worker.run_suggested, template=template, repeats=repeats),
            _Relay(
                watcher,
                self.store,
                lambda values: worker.suggested_trials(template, repeats, values)[0],
            ),
            tune.TuneConfig(
                search_alg=searcher,
                num_samples=sampling.budget,
                max_concurrent_trials=self.slots,
            ),
        )

    def _fit(
        self,
        trainable: Callable[..., None],
        relay: "_Relay",
        config: tune.TuneConfig,
        space: Any = None,
    ) -> None:
        config.reuse_actors = True  # imports and start-up once per worker, not per trial
        config.trial_name_creator = partial(_name, relay.ours)
        config.trial_dirname_creator = lambda trial: str(trial.trial_id)
        cpus, gpus = self.resources.cpus, self.resources.gpus or 0
        bound = partial(trainable, store=str(self.store.folder.resolve()), cpus=cpus)
        tune.Tuner(
            tune.with_resources(bound, {"cpu": cpus, "gpu": gpus}),
            param_space=space,
            tune_config=config,
            run_config=tune.RunConfig(
                storage_path=str(self._folder),
                verbose=0,
                # This counts lost workers and nodes. A failed trial is a record, not an error.
                failure_config=tune.FailureConfig(max_failures=1),
                callbacks=[relay],
            ),
        ).fit()


class _Searcher(OptunaSearch):  # type: ignore[misc]
    """A searcher that reports only the final score of a configuration to Optuna.

    A configuration is several trials, one for each of its seeds and label subsets.
    """

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Do nothing, because a report in the middle of a configuration has no score."""


class _Relay(tune.Callback):  # type: ignore[misc]
    """Passes Tune's events on to the watcher.

    The trial of a worker that died is recorded as failed.
    """

    def __init__(
        self, watcher: TrialWatcher, store: Store, ours: Callable[[dict[str, Any]], Trial]
    ) -> None:
        """`ours`: makes our trial from Tune's configuration of a trial."""
        self.watcher, self.store, self.ours = watcher, store, ours

    def __getstate__(self) -> dict[str, Any]:
        """Keep nothing: Tune takes snapshots of its callbacks, but none is ever restored."""
        return {}

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        self.watcher.started(self.ours(trial.config))

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **_: Any
    ) -> None:
        if "step" in result:
            self.watcher.progressed(self.ours(trial.config), result)

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        self.watcher.ended(self.ours(trial.config), trial.last_result)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        ours = self.ours(trial.config)
        reason = f"the worker died: {str(trial.get_error() or 'killed').strip().splitlines()[-1]}"
        record = failed(ours, reason)
        # A worker may die after it has written its record, and that record must stay.
        self.store.finished_or_run(record.key, lambda: record)
        self.watcher.ended(ours, {"status": "failed", "reason": reason, "dev": None})


def _name(ours: Callable[[dict[str, Any]], Trial], trial: Any) -> str:
    """The name of a trial in the Ray dashboard: method, setting, encoder, seed."""
    return f"{ours(trial.config).label} {trial.trial_id[-5:]}".replace(" ", "_")


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


def _distribution(axis: SamplerRange | list[Any]) -> optuna.distributions.BaseDistribution:
    """The distribution of Optuna for a range of a search space."""
    if isinstance(axis, list):
        return optuna.distributions.CategoricalDistribution(axis)
    numbers = (axis.low, axis.high, axis.step or 0.5)
    if axis.step is not None and all(float(number).is_integer() for number in numbers):
        low, high = int(axis.low), int(axis.high)
        return optuna.distributions.IntDistribution(low, high, step=int(axis.step))
    return optuna.distributions.FloatDistribution(axis.low, axis.high, log=axis.log, step=axis.step)
