"""Runs trials on Ray Tune: on a local Ray, or on the cluster that RAY_ADDRESS names.

A sweep is one run of Tune. Its searcher hands out the jobs that tasks of the sweep await, and turns
the loop of these tasks; its callback resolves what has ended. The store keeps the results, and what
Tune keeps is deleted after the sweep.
"""

import asyncio
import os
import secrets
import shlex
import shutil
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
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
from ray.tune.experiment import Trial as TuneTrial
from ray.tune.schedulers import FIFOScheduler
from ray.tune.search import Searcher

from harness.errors import UserError, shortened
from harness.sweep.cluster.dashboard import Dashboard, where_it_is
from harness.sweep.cluster.machine_check import check_machines
from harness.sweep.cluster.machines import Machine, affordable, all_machines, check_workers
from harness.sweep.cluster.ray_session import ray_session
from harness.sweep.cluster.room import check_fits, largest_room
from harness.sweep.cluster.stopping import Stopping
from harness.sweep.pool import POSTPONED, Hearing, Job, Lanes, Report
from harness.sweep.screen.watcher import SweepWatcher
from harness.sweep.travelling.local_files import LocalFiles
from harness.sweep.workers import worker
from harness.sweep.workers.gpu_share import GpuShares
from harness.sweep.workers.limits import stopped, with_log
from harness.sweep.workers.resources import Limits, Resources
from harness.sweep.workers.trainable import trial_worker
from harness.training.interruption import ended_by_sigterm
from harness.trials.store import Store
from harness.trials.store_folders import store_option
from harness.trials.trial import Trial, commit, failed

# Tune sends these variables of the driver to its workers, and Ray logs what is sent: no secrets.
# The AWS keys among them a worker has from where its Ray was started.
class_cache.ENV_VARS_TO_PROPAGATE = {"RAY_CHDIR_TO_TRIAL_DIR"}


TURNS = 16
"""Turns of the loop of a sweep's tasks when Tune asks for a job. One task may wake another one.

What more turns would do is done when Tune asks again, at the latest after a tenth of a second."""
LOOK_SECONDS = 1.0
"""Time between two looks at the machines of a cluster, which may join and leave"""
UNPLACED_SECONDS = 60.0
"""Time after which a job without a worker is said to wait for one"""
RUNS = 2
"""How often a job begins, if its worker dies"""
STARTS = 5
"""How often a job gets a worker that dies before it begins.

A machine that is lost gets workers for some seconds more, until Ray misses it."""


@dataclass(frozen=True)
class Running:
    """A job that Tune has, or will ask for next."""

    job: Job
    hearing: Hearing
    ended: asyncio.Future[Report]


class RayPool:
    """A connection to Ray for the length of a sweep. It is made when the first trial needs it."""

    def __init__(
        self,
        store: Store,
        resources: Resources,
        limits: Limits,
        samples: Iterable[Trial],
        watcher: SweepWatcher | None,
        *,
        dashboard: bool,
    ) -> None:
        """`samples`: a trial of each search, for which a cluster is checked before the first one.

        `watcher`: hears where Ray's dashboard is, of a sweep that stops, and of a job without a
        worker. `dashboard`: whether the trials are shown there.
        """
        self.store, self.resources, self.limits = store, resources, limits
        self._samples, self._watcher, self._shown = list(samples), watcher, dashboard
        self._files: LocalFiles | None = None
        """What travels to the machines of a cluster; a local Ray has the files"""
        self.sweep = uuid.uuid4().hex
        self._session = ExitStack()
        self._dashboard: Dashboard | None = None
        self.next: deque[Running] = deque()
        """The jobs for which Tune has not asked yet"""
        self.running: dict[str, Running] = {}
        """Key -> every job that has not ended"""
        self._begun: set[str] = set()
        """The keys of the jobs that have begun"""
        self._deaths: Counter[tuple[str, bool]] = Counter()
        """(key, whether it had begun) -> how often its worker has died"""
        self._looked, self._slots = 0.0, 1
        self._unplaced: float | None = None
        """Since when no job has a worker"""

    def __enter__(self) -> "RayPool":
        return self

    def __exit__(self, *error: Any) -> None:
        self._session.__exit__(*error)

    @cached_property
    def _folder(self) -> Path:
        """Connect to Ray, and return a folder for Tune's files.

        Raises UserError when the cluster cannot be joined, when one of its machines cannot run
        the trials, or when none can hold one, and SweepStopped when a local Ray does not start.
        """
        session, page = self._session.enter_context(ray_session(dashboard=self._shown))
        # Ray's own handler would end the driver before its trials have written their checkpoints.
        self._session.enter_context(ended_by_sigterm())
        self.resources = affordable(self.resources)
        if os.environ.get("RAY_ADDRESS"):
            node = ray.get_runtime_context().get_node_id()
            self._files = LocalFiles(session / "files", node)
            check_machines([worker.trial_settings(each, self._files) for each in self._samples])
        if self._shown and self._watcher:
            self._watcher.notice(where_it_is(page, session))
            self._dashboard = Dashboard()
        return session / "tune"

    @property
    def slots(self) -> int:
        """How many trials run at a time. It connects to Ray, with the errors of that."""
        assert self._folder
        if time.monotonic() - self._looked > LOOK_SECONDS:
            total = ray.cluster_resources()
            self.shares.count = total.get("GPU", 0)
            slots = int(total.get("CPU", 0) / self.resources.cpus)
            if least := self.shares.least:
                slots = min(slots, int(self.shares.count / least))
            self._looked, self._slots = time.monotonic(), max(1, slots)
        return self._slots

    @cached_property
    def _machines(self) -> list[Machine]:
        """What the machines have. It connects to Ray, with the errors of that."""
        assert self._folder
        return all_machines()

    @cached_property
    def shares(self) -> GpuShares:
        """The shares of GPUs that jobs get."""
        gpus = [gpu for machine in self._machines for gpu in machine.gpus]
        return GpuShares(self.resources.gpus or 0, gpus, 0, self.store)

    def check_fits(self, trials: Iterable[Trial]) -> None:
        """Raises UserError for a trial that needs more memory than any machine has."""
        on_gpu = bool(self.shares.wanted)
        room = largest_room(self._machines, on_gpu=on_gpu, limit=self.limits.memory_bytes)
        for trial in map(replace, trials):  # a trial keeps what is asked here
            check_fits(trial, room)
            check_workers(trial, self.resources, ray.cluster_resources())

    async def run(self, job: Job, hearing: Hearing) -> Report:
        """Run a job in a slot that the caller holds; Tune gives it a worker."""
        given = Running(job, hearing, asyncio.get_running_loop().create_future())
        self.running[job.key] = given
        self.next.append(given)
        return await given.ended

    def serve(
        self, loop: asyncio.AbstractEventLoop, sweep: asyncio.Task[None], lanes: Lanes
    ) -> None:
        """Run the task of a sweep to its end. `lanes`: those of its tasks that wait for slots."""

        def turn() -> bool:
            """Let the tasks go on until they wait; whether the sweep has ended."""
            lanes.give()
            for _ in range(TURNS):
                loop.call_soon(loop.stop)
                loop.run_forever()
            return sweep.done()

        lanes.open(lambda held: held < self.slots and not self.shares.waiting)
        say = self._watcher.stopping if self._watcher else lambda _: None
        stopping = Stopping(self.store, self.sweep, self.running.keys(), say)
        with stopping.heeded():
            while not sweep.done() and not stopping.asked:
                self._tuner(turn, stopping).fit()
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
        wanted = self.shares.wanted
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

    def _tuner(self, turn: Callable[[], bool], stopping: Stopping) -> tune.Tuner:
        """The run of Tune, which ends with the sweep. `turn`: lets the sweep's tasks go on."""
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
                search_alg=Awaited(self, turn),
                scheduler=NextInLine(self),
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
                callbacks=[Events(self, stopping)],
            ),
        )

    # Tune asks for jobs, and says what becomes of them

    def settings(self, given: Running) -> dict[str, Any]:
        """A job as Tune hands it to a worker, with its share of a GPU."""
        return worker.settings_of(given.job, self.shares.begun(given.job), self._files)

    def started(self, key: str) -> None:
        """A worker has the job."""
        given = self.running[key]
        self._begun.add(key)
        given.hearing.started()
        if self._dashboard:
            part = given.job.part
            if part:
                self._dashboard.preparing(part.title)
            else:
                self._dashboard.started(given.job.trial)

    def progressed(self, key: str, report: Report) -> None:
        """A job trains; a trial that is to be pruned finds a note of it."""
        given = self.running[key]
        if given.hearing.progressed(report):
            self.store.leave_note(self.store.running(key) / worker.PRUNE)
        if self._dashboard and not given.job.part:
            self._dashboard.progressed(given.job.trial, report)

    def ended(self, key: str, report: Report, *, stopping: bool) -> None:
        """A worker has ended a job, or has put it off."""
        given = self.running[key]
        self.shares.ended(key, given.job.trial, report)
        if (report.get("lost") and not self._runs_again(key)) or not report.get("recorded", True):
            report = self._recorded_failure(given.job, report["reason"])
        self._resolve(given, report, stopping=stopping)

    def died(self, key: str, error_file: str | None, *, stopping: bool) -> None:
        """The worker of a job has died."""
        given = self.running[key]
        self.shares.ended(key, given.job.trial, {})
        running, why = self.store.running(key), death(error_file)
        ended = stopped(running, self.sweep)
        if not ended and self._runs_again(key):
            again = {"status": POSTPONED, "reason": f"{why}; it runs again", "waits_for": key}
            self._resolve(given, again, stopping=stopping)
            return
        reason = with_log(ended or why, self.store.log(key))
        report = self._recorded_failure(given.job, reason)
        if ended and not given.job.part:  # one that died by itself keeps its checkpoint
            shutil.rmtree(running, ignore_errors=True)
        self._resolve(given, report, stopping=stopping)

    def _resolve(self, given: Running, report: Report, *, stopping: bool) -> None:
        job = given.job
        del self.running[job.key]
        self._begun.discard(job.key)
        if self._dashboard:
            if job.part:
                self._dashboard.prepared(job.part.title, report["reason"], 0)
            elif report["status"] == POSTPONED:
                self._dashboard.postponed(job.trial, report["reason"])
            else:
                self._dashboard.ended(job.trial, report)
        # A trial that gives way to the end of the sweep is not to begin again.
        if given.ended.done() or (stopping and report["status"] == POSTPONED):
            return
        given.ended.set_result({**report, "logs": self._logs(job.key)})

    def _logs(self, key: str) -> str:
        """The command that prints the output of a trial."""
        return shlex.join(["harness", "logs", key[:10], *store_option(self.store.place)])

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

    def look(self) -> None:
        """Say so where jobs have waited long for a worker, and no other job runs."""
        if not self.running or self.running.keys() & self._begun:
            self._unplaced = None
        elif self._unplaced is None:
            self._unplaced = time.monotonic()
        elif time.monotonic() - self._unplaced > UNPLACED_SECONDS and self._watcher:
            self._unplaced = float("inf")
            free, trial = ray.available_resources(), next(iter(self.running.values())).job.trial
            self._watcher.notice(
                f"No worker has begun for {UNPLACED_SECONDS:.0f} s: {trial.label} has "
                f"{trial.workers} workers with {self.resources.cpus:g} CPUs each, GPUs: "
                f"{self.shares.wanted}; free are {free.get('CPU', 0):g} CPUs and "
                f"{free.get('GPU', 0):g} GPUs. It begins when there are enough."
            )


class Awaited(Searcher):  # type: ignore[misc]
    """Gives Tune the jobs that somebody awaits."""

    def __init__(self, pool: RayPool, turn: Callable[[], bool]) -> None:
        super().__init__()
        self.pool, self.turn = pool, turn

    def __getstate__(self) -> dict[str, Any]:
        """Keep nothing: Tune writes its searcher into a file, but none is ever restored."""
        return {}

    def suggest(self, trial_id: str) -> Any:
        """The next job for a worker; None when there is none at this moment."""
        if not self.pool.next and self.turn():
            return Searcher.FINISHED
        if not self.pool.next or self.pool.shares.waiting:
            return None
        return self.pool.settings(self.pool.next.popleft())

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Do nothing, because the callback says what has ended."""

    def save_to_dir(self, checkpoint_dir: str, session_str: str = "default") -> None:
        """Save nothing: the store is the ledger."""


class NextInLine(FIFOScheduler):  # type: ignore[misc]
    """A free worker takes the first trial for which no other worker is starting.

    Tune's own order gives it the first trial of all. If a worker starts for that one, then Tune
    ends this worker and starts another for the next trial; a worker needs seconds for its imports,
    so a sweep of short trials would have one worker, and would start and end others all the time.
    """

    def __init__(self, pool: RayPool) -> None:
        super().__init__()
        self.pool = pool

    def __getstate__(self) -> dict[str, Any]:
        """Keep nothing: none is ever restored."""
        return {}

    def choose_trial_to_run(self, tune_controller: Any) -> Any:
        """The trial that runs next; None when none waits."""
        trials = tune_controller.get_trials()
        waiting = [trial for trial in trials if trial.status == TuneTrial.PENDING]
        running = sum(trial.status == TuneTrial.RUNNING for trial in trials)
        # All slots but those of running trials and of the free worker may have a starting one.
        starting = max(0, self.pool.slots - running - 1)
        return waiting[min(starting, len(waiting) - 1)] if waiting else None


class Events(tune.Callback):  # type: ignore[misc]
    """Tells a pool what Tune says of its jobs."""

    def __init__(self, pool: RayPool, stopping: Stopping) -> None:
        self.pool, self.stopping = pool, stopping

    def __getstate__(self) -> dict[str, Any]:
        """Keep nothing: Tune takes snapshots of its callbacks, but none is ever restored."""
        return {}

    def on_step_end(self, iteration: int, trials: list[Any], **_: Any) -> None:
        self.stopping.look()
        self.pool.look()
        # Tune keeps 80 kB of every trial, and looks at all of them in every step.
        trials[:] = [trial for trial in trials if not trial.is_finished()]

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        self.pool.started(trial.config["key"])

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **_: Any
    ) -> None:
        if "step" in result:
            self.pool.progressed(trial.config["key"], result)

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        self.pool.ended(trial.config["key"], trial.last_result, stopping=self.stopping.asked)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        self.pool.died(trial.config["key"], trial.error_file, stopping=self.stopping.asked)


def _name(trial: Any) -> str:
    """The name of a trial for Tune, whose names are unique and have no spaces."""
    return f"{worker.given_trial(trial.config).label} {trial.trial_id[-5:]}".replace(" ", "_")


def _resources(settings: dict[str, Any], *, cpus: float) -> Any:
    """What a job occupies."""
    bundles = [{"CPU": cpus, "GPU": settings["gpus"]} for _ in range(settings["workers"])]
    return tune.PlacementGroupFactory(bundles)


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
