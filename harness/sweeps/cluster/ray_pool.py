"""Runs trials on Ray Tune: on a local Ray, or on the cluster that RAY_ADDRESS names.

A sweep is one run of Tune. Its searcher hands out the jobs that tasks of the sweep await, and turns
the loop of these tasks; its callback resolves what has ended. The store keeps the results, and what
Tune keeps is deleted after the sweep.
"""

import asyncio
import os
import secrets
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

os.environ.update(
    RAY_USAGE_STATS_ENABLED="0",  # no telemetry
    RAY_CHDIR_TO_TRIAL_DIR="0",  # paths of the command line stay valid in a worker
    RAY_AIR_NEW_OUTPUT="0",  # its table of trials would stand beside ours
    RAY_DEDUP_LOGS_SKIP_REGEX=".",  # a worker that died is a failed trial; Ray prints paragraphs
    RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="1",  # a trial without a GPU sees none
    # Ray adds 15 to the niceness of workers, so that they starve when anything else runs.
    RAY_worker_niceness="0",
    TUNE_DISABLE_AUTO_CALLBACK_LOGGERS="1",  # it would write each report into three more files
    TUNE_DISABLE_SIGINT_HANDLER="1",  # harness.cli handles Ctrl-C
    TUNE_GLOBAL_CHECKPOINT_S="86400",  # no snapshots: the store is the ledger
    TUNE_DISABLE_STRICT_METRIC_CHECKING="1",  # no metric of Tune selects anything
    TUNE_MAX_PENDING_TRIALS_PG="100000",  # a job is handed out when there is a slot for it
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
from harness.sweeps.cluster.capacity import (
    Bundle,
    Capacity,
    Demand,
    autoscales,
    check_machines,
    fitting,
    written,
)
from harness.sweeps.cluster.dashboard import Dashboard, where_it_is
from harness.sweeps.cluster.ray_session import ray_session
from harness.sweeps.cluster.tune_run import Jobs, TuneScheduler, TuneSearcher, trial_worker
from harness.sweeps.machines import Limits, Machine, Resources, this_machine
from harness.sweeps.memory import check_fits, largest_room
from harness.sweeps.pool import TURNS, Hearing, Job, Lanes, Pool, Report
from harness.sweeps.screen.watcher import SweepWatcher, TrialWatcher
from harness.sweeps.workers import worker
from harness.sweeps.workers.files import on_every_machine
from harness.sweeps.workers.gpu_share import GpuShares
from harness.training.interruption import ended_as_by_ctrl_c
from harness.trials.store import Store
from harness.trials.trial import Trial, arrived, commit

# Tune sends these variables of the driver to its workers, and Ray logs what is sent: no secrets.
# The AWS keys among them a worker has from where its Ray was started.
class_cache.ENV_VARS_TO_PROPAGATE = {"RAY_CHDIR_TO_TRIAL_DIR"}


REPLY_SECONDS = 180.0
"""A machine starts a worker for its answer"""


class RayPool(Pool):
    """A connection to Ray for the length of a sweep. It is made when the first trial needs it."""

    def __init__(
        self,
        store: Store,
        resources: Resources,
        limits: Limits,
        samples: Iterable[Trial],
        watcher: SweepWatcher,
        show: Callable[[TrialWatcher], None] | None,
    ) -> None:
        """`samples`: a trial of each search, for which a cluster is checked before the first one.

        `watcher`: hears where Ray's dashboard is, of a sweep that stops and of a job without a
        worker. `show`: gets what shows the trials in the dashboard; None: they are not shown there.
        """
        self.store, self.resources, self.limits = store, resources, limits
        self._samples, self._watcher, self._show = list(samples), watcher, show
        self._node: str | None = None
        """Ray's name of this machine, from which those of a cluster get files"""
        self.sweep = uuid.uuid4().hex
        self._session = ExitStack()
        self._capacity, self._demand = Capacity(), Demand()

    def __exit__(self, *error: Any) -> None:
        self._session.__exit__(*error)

    @cached_property
    def _folder(self) -> Path:
        """Connect to Ray, and return a folder for Tune's files.

        Raises UserError when the cluster cannot be joined, when one of its machines cannot run
        the trials, or when none can hold one, and SweepStopped when a local Ray does not start.
        """
        gpus = self.resources.gpus
        session, page = self._session.enter_context(
            ray_session(
                self._watcher.notice,
                dashboard=self._show is not None,
                shares_gpus=gpus == "auto" or 0 < (gpus or 0) < 1,
            )
        )
        # Ray's own handler would end the driver before its trials have written their checkpoints.
        self._session.enter_context(ended_as_by_ctrl_c())
        self.resources = affordable(self.resources, self._capacity, self._watcher.notice)
        if os.environ.get("RAY_ADDRESS"):
            self._node = ray.get_runtime_context().get_node_id()
            check_machines(self._samples, self._node)
        if self._show:
            self._watcher.notice(where_it_is(page, session))
            self._show(Dashboard())
        return session / "tune"

    @property
    def slots(self) -> int:
        """Number of workers that run at a time. It connects to Ray, with the errors of that."""
        assert self._folder
        machines = self._capacity.machines
        self._shares.count = sum(each.get("GPU", 0) for each in machines)
        return max(1, fitting(self._bundle(self._shares.least), machines))

    def _bundle(self, gpus: float) -> Bundle:
        return {"CPU": self.resources.cpus, "GPU": gpus}

    @cached_property
    def _autoscales(self) -> bool:
        return bool(os.environ.get("RAY_ADDRESS")) and autoscales()

    @cached_property
    def _machines(self) -> list[Machine]:
        """The machines of Ray; one that does not answer is left out.

        It connects to Ray, with the errors of that.
        """
        assert self._folder
        if not os.environ.get("RAY_ADDRESS"):
            return [this_machine()]
        asked = [answer for _, answer in on_every_machine(this_machine)]
        answered, _ = ray.wait(asked, num_returns=len(asked), timeout=REPLY_SECONDS)
        machines = []
        for answer in answered:
            with suppress(ray.exceptions.RayError):  # it was lost meanwhile, and runs no trial
                machines.append(ray.get(answer))
        return machines

    @cached_property
    def _shares(self) -> GpuShares:
        gpus = [gpu for machine in self._machines for gpu in machine.gpus]
        return GpuShares(self.resources.gpus or 0, gpus, 0, self.store)

    def check_fits(self, trials: Iterable[Trial]) -> None:
        on_gpu = bool(self._shares.wanted)
        most = largest_room(self._machines, on_gpu=on_gpu, limit=self.limits.memory_bytes)
        bundle = self._bundle(1.0 if on_gpu else 0.0)  # a trial of several has whole GPUs
        for trial in trials:
            check_fits(trial, most)
            if trial.workers > 1:
                room = fitting(bundle, self._capacity.machines)
                refused = (
                    f"{trial.label} cannot run: each of its {trial.workers} workers needs "
                    f"{written(bundle)}, and the machines have room for {room} of them; lower "
                    f"workers or --cpus-per-trial"
                )
                self._capacity.wait(trial.workers, bundle, refused, self._watcher.notice)

    @cached_property
    def _jobs(self) -> Jobs:
        cpus = self.resources.cpus
        return Jobs(
            self.store, self.sweep, self._shares, self._watcher, self._capacity, cpus, self._node
        )

    async def run(self, job: Job, hearing: Hearing) -> Report:
        """Run a job in a slot that the caller holds; Tune gives it a worker."""
        return await self._jobs.give(job, hearing)

    def serve(
        self, loop: asyncio.AbstractEventLoop, sweep: asyncio.Task[None], lanes: Lanes
    ) -> None:
        def turn() -> bool:
            """Let the tasks go on until they wait; whether the sweep has ended.

            What more turns would do is done when Tune asks again, after a tenth of a second.
            """
            lanes.give()
            if self._autoscales:
                self._demand.show(lanes.lacking, self._bundle(self._shares.least))
            for _ in range(2 * TURNS):
                loop.call_soon(loop.stop)
                loop.run_forever()
            return sweep.done()

        lanes.open(lambda held: held < self.slots and not self._shares.waiting)
        stopping = self._jobs.stopping
        with stopping.heeded():
            while not sweep.done() and not stopping.asked:
                self._tuner(turn).fit()
        if stopping.asked:
            raise KeyboardInterrupt

    def map_unordered(
        self, call: Callable[[dict[str, Any], str, float], Any], jobs: Sequence[dict[str, Any]]
    ) -> Iterator[tuple[int, Any]]:
        """Call a function on a worker for each of these; yield (number, what it returned).

        It is called again, once, when its worker has died, and then the reason is yielded.
        """
        wanted = self._shares.wanted
        gpus = 1.0 if wanted == "auto" else wanted
        remote = ray.remote(num_cpus=self.resources.cpus, num_gpus=gpus, max_retries=1)(call)
        address, cpus = self.store.address, self.resources.cpus
        sent = [{**each, **worker.trial_settings(each["trial"], self._node)} for each in jobs]
        running = {remote.remote(each, address, cpus): number for number, each in enumerate(sent)}
        while running:
            [ended], _ = ray.wait(list(running), num_returns=1)
            try:
                answer = ray.get(ended)
            except ray.exceptions.RayError as error:
                answer = shortened(" ".join(str(error).split()), 500)
            yield running.pop(ended), answer

    def _tuner(self, turn: Callable[[], bool]) -> tune.Tuner:
        """The run of Tune, which ends with the sweep. `turn`: lets the sweep's tasks go on."""
        cpus = self.resources.cpus
        bound = partial(
            worker.run_one,
            store=self.store.address,
            sweep=self.sweep,
            commit=commit(),
            cpus=cpus,
            limits=self.limits,
        )

        def resources(settings: dict[str, Any]) -> tune.PlacementGroupFactory:
            bundle = {"CPU": cpus, "GPU": settings["gpus"]}  # of each process of a job
            return tune.PlacementGroupFactory([bundle] * settings["workers"])

        return tune.Tuner(
            trial_worker(bound, resources),
            tune_config=tune.TuneConfig(
                search_alg=TuneSearcher(self._jobs, turn),
                scheduler=TuneScheduler(lambda: self.slots, self._jobs.waited_too_long),
                num_samples=-1,  # until the searcher ends it
                reuse_actors=True,  # imports and start-up once per worker, not per trial
                trial_name_creator=_name,
                trial_dirname_creator=lambda trial: str(trial.trial_id),
            ),
            run_config=tune.RunConfig(
                storage_path=str(self._folder),
                verbose=0,
                # The trial of a lost worker is given to another one here.
                failure_config=tune.FailureConfig(max_failures=0),
                callbacks=[self._jobs],
            ),
        )


def _name(trial: Any) -> str:
    """The name of a trial for Tune, whose names are unique and have no spaces."""
    return f"{arrived(trial.config['trial']).label} {trial.trial_id[-5:]}".replace(" ", "_")


def affordable(wanted: Resources, capacity: Capacity, say: Callable[[str], None]) -> Resources:
    """The resources with the number of GPUs filled in; without GPUs, it is 0.

    `auto` stays where there are GPUs. Raises UserError when no machine has as many CPUs and GPUs,
    and no autoscaler starts one; `say` hears that one is waited for.
    """

    def filled() -> float | Literal["auto"]:
        there_are_gpus = any(each.get("GPU", 0) for each in capacity.machines)
        if wanted.gpus is None:
            return 1 if there_are_gpus else 0
        return wanted.gpus if there_are_gpus or wanted.gpus != "auto" else 0

    least = 1.0 if (gpus := filled()) == "auto" else gpus
    bundle = {"CPU": wanted.cpus, "GPU": least}
    sizes = [(machine.get("GPU", 0), machine.get("CPU", 0)) for machine in capacity.machines]
    most_gpus, most_cpus = max(sizes, default=(0, 0))
    refused = (
        f"no machine has {written(bundle)} for one trial: the largest has "
        f"{written({'CPU': most_cpus, 'GPU': most_gpus})}; lower --cpus-per-trial or "
        f"--gpus-per-trial"
    )
    capacity.wait(1, bundle, refused, say)
    return Resources(wanted.cpus, filled())
