"""Trials on Ray Tune: a local Ray, or the cluster that RAY_ADDRESS names. The store, not Tune, remembers results."""

import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

os.environ.update(
    RAY_USAGE_STATS_ENABLED="0",  # no telemetry
    RAY_CHDIR_TO_TRIAL_DIR="0",  # paths of the command line stay valid
    RAY_AIR_NEW_OUTPUT="0",
    RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="1",  # a trial without a GPU sees none
    TUNE_DISABLE_AUTO_CALLBACK_LOGGERS="1",
    TUNE_DISABLE_SIGINT_HANDLER="1",  # Ctrl-C is ours
    TUNE_GLOBAL_CHECKPOINT_S="86400",  # no snapshots: the store is the ledger
    TUNE_DISABLE_STRICT_METRIC_CHECKING="1",
)
if not os.environ.get("RAY_ADDRESS"):
    # a local Ray's ports are open to the network, so that only this process and its workers know the token;
    # Ray reads it when it is imported
    os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))

import optuna
import ray
from ray import tune
from ray.tune.search.optuna import OptunaSearch

from harness.errors import UserError
from harness.sweep.driver import worker
from harness.sweep.space import Range, Repeats, Sampler, Values
from harness.trials.store import Store
from harness.trials.trial import Trial, failed

optuna.logging.set_verbosity(optuna.logging.WARNING)

SAMPLERS = {
    "tpe": optuna.samplers.TPESampler,
    "random": optuna.samplers.RandomSampler,
    "qmc": optuna.samplers.QMCSampler,
}


class Watcher(Protocol):
    """Who is told how the trials go."""

    def started(self, trial: Trial) -> None:
        """A worker has taken the trial."""

    def progressed(self, trial: Trial, report: Mapping[str, Any]) -> None:
        """A `harness.training.loop.Progress`, as a dictionary."""

    def ended(self, trial: Trial, report: Mapping[str, Any]) -> None:
        """`status`, `reason`, `dev`."""


@dataclass(frozen=True)
class Resources:
    """What one trial occupies."""

    cpus: float = 1
    gpus: float | None = None
    """None: one where there are GPUs, else none"""


@dataclass(frozen=True)
class Sampling:
    """A sampler's ranges and budget, and what it already knows."""

    template: Trial
    """The trial that every suggestion completes"""
    repeats: Repeats
    """On which each is run"""
    ranges: Mapping[str, Range | list[Any]]
    sampler: Sampler
    budget: int
    """Configurations"""
    known: list[tuple[Values, float]]


class Engine:
    """A connection to Ray for the length of a sweep."""

    def __init__(self, store: Store, resources: Resources) -> None:
        self.store = store
        self.resources = resources

    def __enter__(self) -> "Engine":
        """Raises UserError when no machine of the cluster can hold a trial."""
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
        """How many trials run at once."""
        total, gpus = ray.cluster_resources(), self.resources.gpus
        slots = int(total.get("CPU", 0) / self.resources.cpus)
        return max(1, min(slots, int(total.get("GPU", 0) / gpus)) if gpus else slots)

    def run(self, trials: list[Trial], watcher: Watcher) -> None:
        """Run every trial once; their records are in the store afterwards, failed ones too."""
        tasks = [worker.task(trial) for trial in trials]
        relay = _Relay(watcher, self.store, worker.given)
        self._fit(worker.run_one, relay, tune.TuneConfig(), {"task": tune.grid_search(tasks)})

    def sample(self, sampling: Sampling, watcher: Watcher) -> None:
        """Let an Optuna sampler suggest configurations until the budget is spent."""
        searcher = _Searcher(
            {name: _distribution(axis) for name, axis in sampling.ranges.items()},
            metric="score",
            mode="max",
            sampler=SAMPLERS[sampling.sampler.name](
                seed=sampling.sampler.seed + len(sampling.known)
            ),
            points_to_evaluate=[values for values, _ in sampling.known] or None,
            evaluated_rewards=[score for _, score in sampling.known] or None,
        )
        template, repeats = worker.task(sampling.template), sampling.repeats
        self._fit(
            partial(worker.run_suggested, template=template, repeats=repeats),
            _Relay(
                watcher, self.store, lambda values: worker.suggested(template, repeats, values)[0]
            ),
            tune.TuneConfig(
                search_alg=searcher, num_samples=sampling.budget, max_concurrent_trials=self.slots
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
                failure_config=tune.FailureConfig(
                    max_failures=1
                ),  # a lost worker or node, not a failed trial
                callbacks=[relay],
            ),
        ).fit()


class _Searcher(OptunaSearch):  # type: ignore[misc]
    """Optuna is told how a configuration ended, not how it goes: a configuration is several trials, on its seeds."""

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Nothing: reports on the way have no score."""


class _Relay(tune.Callback):  # type: ignore[misc]
    """Tune's events as ours. A worker that died without a word is recorded as a failed trial."""

    def __init__(
        self, watcher: Watcher, store: Store, ours: Callable[[dict[str, Any]], Trial]
    ) -> None:
        self.watcher, self.store, self.ours = watcher, store, ours

    def __getstate__(self) -> dict[str, Any]:
        """Tune snapshots its callbacks; nothing is ever restored from one."""
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
        known = self.store.get(record["key"])
        if (
            known is None or known["status"] != "finished"
        ):  # it may have died after its record was written
            self.store.write(record)
        self.watcher.ended(ours, {"status": "failed", "reason": reason, "dev": None})


def _name(ours: Callable[[dict[str, Any]], Trial], trial: Any) -> str:
    """What the Ray dashboard shows: method, setting, encoder, seed."""
    return f"{ours(trial.config).label} {trial.trial_id[-5:]}".replace(" ", "_")


def _affordable(wanted: Resources) -> Resources:
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    gpus = wanted.gpus
    if gpus is None:
        gpus = 1 if any(node.get("GPU", 0) for node in nodes) else 0
    if any(node.get("CPU", 0) >= wanted.cpus and node.get("GPU", 0) >= gpus for node in nodes):
        return Resources(wanted.cpus, gpus)
    most = max(nodes, key=lambda node: (node.get("GPU", 0), node.get("CPU", 0)))
    raise UserError(
        f"no machine has {wanted.cpus:g} CPUs and {gpus:g} GPUs for one trial: the largest has "
        f"{most.get('CPU', 0):g} and {most.get('GPU', 0):g}; lower --cpus-per-trial or --gpus-per-trial"
    )


def _distribution(axis: Range | list[Any]) -> optuna.distributions.BaseDistribution:
    if isinstance(axis, list):
        return optuna.distributions.CategoricalDistribution(axis)
    whole = all(float(number).is_integer() for number in (axis.low, axis.high, axis.step or 0.5))
    if whole and axis.step is not None:
        return optuna.distributions.IntDistribution(
            int(axis.low), int(axis.high), step=int(axis.step)
        )
    return optuna.distributions.FloatDistribution(axis.low, axis.high, log=axis.log, step=axis.step)
