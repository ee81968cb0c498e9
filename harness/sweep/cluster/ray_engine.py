"""Runs trials on Ray Tune: on a local Ray, or on the cluster that RAY_ADDRESS names.

The store keeps the results; what Tune keeps is deleted after the sweep.
"""

import gc
import os
import secrets
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

os.environ.update(
    RAY_USAGE_STATS_ENABLED="0",  # no telemetry
    RAY_CHDIR_TO_TRIAL_DIR="0",  # paths of the command line stay valid in a worker
    RAY_AIR_NEW_OUTPUT="0",
    RAY_DEDUP_LOGS_SKIP_REGEX=".",  # a worker that died is a failed trial; Ray prints paragraphs
    RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="1",  # a trial without a GPU sees none
    # Ray adds 15 to the niceness of workers, so that they starve when anything else runs.
    RAY_worker_niceness="0",
    TUNE_DISABLE_AUTO_CALLBACK_LOGGERS="1",
    TUNE_DISABLE_SIGINT_HANDLER="1",  # harness.cli handles Ctrl-C
    TUNE_GLOBAL_CHECKPOINT_S="86400",  # no snapshots: the store is the ledger
    TUNE_DISABLE_STRICT_METRIC_CHECKING="1",
    RAY_IGNORE_UNHANDLED_ERRORS="1",  # a failed trial is a record
)
if not os.environ.get("RAY_ADDRESS"):
    # Other users of this machine reach the ports of a local Ray, so only this process and its
    # workers know the token. Ray reads all of this when it is imported.
    os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))
    # A Ray without a cluster listens on loopback alone; the name is that of its first use.
    os.environ.update(RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0")

import ray
from ray import tune
from ray.tune.execution import class_cache

from harness.errors import shortened
from harness.sweep.cluster.dashboard import Dashboard, where_it_is
from harness.sweep.cluster.machine_check import check_machines
from harness.sweep.cluster.machines import Machine, affordable, all_machines, check_workers
from harness.sweep.cluster.ray_session import ray_session
from harness.sweep.cluster.relay import Feed, Relay
from harness.sweep.cluster.room import check_fits, largest_room
from harness.sweep.cluster.trial_order import NextInLine
from harness.sweep.queue.stopping import Stopping, stop_note
from harness.sweep.queue.trial_queue import TrialQueue
from harness.sweep.queue.trial_sources import TrialSource
from harness.sweep.screen.watcher import Everyone, TrialWatcher
from harness.sweep.travelling.local_files import LocalFiles
from harness.sweep.workers import worker
from harness.sweep.workers.gpu_share import GpuShares
from harness.sweep.workers.resources import Limits, Resources
from harness.sweep.workers.trainable import trial_worker
from harness.training.interruption import ended_by_sigterm
from harness.trials.store import Store
from harness.trials.trial import Trial, commit

# Tune sends these variables of the driver to its workers, and Ray logs what is sent: no secrets.
# The AWS keys among them a worker has from where its Ray was started.
class_cache.ENV_VARS_TO_PROPAGATE = {"RAY_CHDIR_TO_TRIAL_DIR"}


class RayEngine:
    """A connection to Ray for the length of a sweep. It is made when the first trial needs it."""

    def __init__(
        self,
        store: Store,
        resources: Resources,
        limits: Limits,
        samples: Iterable[Trial],
        announce: Callable[[str], None] | None = None,
    ) -> None:
        """`samples`: a trial of each search, for which a cluster is checked before the first one.

        `announce`: hears where Ray's dashboard is; None: the sweep is not shown there.
        """
        self.store, self.resources, self.limits = store, resources, limits
        self._samples = list(samples)
        self._files: LocalFiles | None = None
        """What travels to the machines of a cluster; a local Ray has the files"""
        self.sweep = uuid.uuid4().hex
        self._session = ExitStack()
        self._announce = announce
        self._dashboard: Dashboard | None = None
        self._made: set[str] = set()
        """The keys of the parts that have been made for the trials of this sweep"""

    def __enter__(self) -> "RayEngine":
        return self

    def __exit__(self, *error: Any) -> None:
        self._session.__exit__(*error)

    @cached_property
    def _folder(self) -> Path:
        """Connect to Ray, and return a folder for Tune's files.

        Raises UserError when the cluster cannot be joined, when one of its machines cannot run
        the trials, or when none can hold one, and SweepStopped when a local Ray does not start.
        """
        shown = self._announce is not None
        session, page = self._session.enter_context(ray_session(dashboard=shown))
        # Ray's own handler would end the driver before its trials have written their checkpoints.
        self._session.enter_context(ended_by_sigterm())
        self.resources = affordable(self.resources)
        if os.environ.get("RAY_ADDRESS"):
            node = ray.get_runtime_context().get_node_id()
            self._files = LocalFiles(session / "files", node)
            check_machines([worker.trial_settings(each, self._files) for each in self._samples])
        if self._announce:
            self._announce(where_it_is(page, session))
            self._dashboard = Dashboard()
        return session / "tune"

    @property
    def slots(self) -> int:
        """How many trials run at a time. It connects to Ray, with the errors of that."""
        assert self._folder
        total = ray.cluster_resources()
        slots = int(total.get("CPU", 0) / self.resources.cpus)
        if least := self._gpu_shares.least:
            slots = min(slots, int(total.get("GPU", 0) / least))
        return max(1, slots)

    @cached_property
    def _machines(self) -> list[Machine]:
        """What the machines have. It connects to Ray, with the errors of that."""
        assert self._folder
        return all_machines()

    @cached_property
    def _gpu_shares(self) -> GpuShares:
        gpus = [gpu for machine in self._machines for gpu in machine.gpus]
        count = ray.cluster_resources().get("GPU", 0)
        return GpuShares(self.resources.gpus or 0, gpus, count, self.store)

    def check_fits(self, trials: Iterable[Trial]) -> None:
        """Raises UserError for a trial that needs more memory than any machine has."""
        on_gpu = bool(self._gpu_shares.wanted)
        room = largest_room(self._machines, on_gpu=on_gpu, limit=self.limits.memory_bytes)
        for trial in map(replace, trials):  # a trial keeps what is asked here
            check_fits(trial, room)
            check_workers(trial, self.resources, ray.cluster_resources())

    def run_from(
        self, source: TrialSource, watcher: TrialWatcher, *, only_parts: bool = False
    ) -> None:
        """Run every trial of a source once, until it is exhausted.

        Afterwards the store has all records, also those of failures. `only_parts`: make what the
        trials share, and run none of them.
        """
        queue = TrialQueue(source, self.store, self._made, slots=self.slots, only_parts=only_parts)
        if self._dashboard:
            watcher = Everyone(watcher, self._dashboard)
        note = stop_note(self.store.running_folder, self.sweep)
        stopping = Stopping(queue, note, watcher.stopping)
        relay = Relay(queue, self._gpu_shares, watcher, stopping, self.sweep)
        with stopping.heeded():
            while not queue.finished and not stopping.asked:
                self._tuner(queue, relay).fit()
                # A run's objects refer to one another. Python would keep those of several runs.
                gc.collect()
        if stopping.asked:
            raise KeyboardInterrupt

    def sent(self, trial: Trial) -> dict[str, Any]:
        """A trial as `each` takes it to a worker, with the list of the files that travel."""
        assert self._folder
        return worker.trial_settings(trial, self._files)

    def each(
        self, call: Callable[[dict[str, Any], str, float], Any], given: Sequence[dict[str, Any]]
    ) -> Iterator[tuple[int, Any]]:
        """Call a function on a worker for each of these; yield (number, what it returned).

        They come as they end. The function also gets the address of the store and its number of
        CPU cores. It is called again, once, when its worker has died, and then the reason is
        yielded.
        """
        wanted = self._gpu_shares.wanted
        gpus = 1.0 if wanted == "auto" else wanted
        remote = ray.remote(num_cpus=self.resources.cpus, num_gpus=gpus, max_retries=1)(call)
        address, cpus = self.store.address, self.resources.cpus
        running = {remote.remote(each, address, cpus): place for place, each in enumerate(given)}
        while running:
            [ended], _ = ray.wait(list(running), num_returns=1)
            try:
                found = ray.get(ended)
            except ray.exceptions.RayError as error:
                found = shortened(" ".join(str(error).split()), 500)
            yield running.pop(ended), found

    def _tuner(self, queue: TrialQueue, relay: Relay) -> tune.Tuner:
        """A run of Tune, which ends when the queue is empty or after MOST_JOBS."""
        # By default Tune takes one trial ahead, and so starts one worker after the other.
        os.environ["TUNE_MAX_PENDING_TRIALS_PG"] = str(self.slots)
        bound = partial(
            worker.run_one,
            store=self.store.address,
            sweep=self.sweep,
            commit=commit(),
            cpus=self.resources.cpus,
            limits=self.limits,
        )
        return tune.Tuner(
            trial_worker(bound, partial(_resources, cpus=self.resources.cpus)),
            tune_config=tune.TuneConfig(
                search_alg=Feed(queue, self._gpu_shares, self._files),
                scheduler=NextInLine(self.slots),
                num_samples=-1,  # until the searcher ends it
                reuse_actors=True,  # imports and start-up once per worker, not per trial
                trial_name_creator=_name,
                trial_dirname_creator=lambda trial: str(trial.trial_id),
            ),
            run_config=tune.RunConfig(
                storage_path=str(self._folder),
                verbose=0,
                # The relay gives the trial of a lost worker to the queue again.
                failure_config=tune.FailureConfig(max_failures=0),
                callbacks=[relay],
            ),
        )


def _name(trial: Any) -> str:
    """The name of a trial for Tune, whose names are unique and have no spaces."""
    return f"{worker.given_trial(trial.config).label} {trial.trial_id[-5:]}".replace(" ", "_")


def _resources(settings: dict[str, Any], *, cpus: float) -> Any:
    """What a job occupies."""
    bundles = [{"CPU": cpus, "GPU": settings["gpus"]} for _ in range(settings["workers"])]
    return tune.PlacementGroupFactory(bundles)
