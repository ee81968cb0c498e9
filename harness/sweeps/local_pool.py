"""Runs the trials of a sweep in this process, one after the other, without Ray."""

import asyncio
import os
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict
from typing import Any

from harness.errors import Postponed, Pruned, TrialFailure, UserError
from harness.locks import postponing
from harness.sweeps.devices import estimated, this_cpu
from harness.sweeps.machines import Limits, Resources, this_machine
from harness.sweeps.memory import check_fits, largest_room
from harness.sweeps.pool import POSTPONED, Hearing, Job, Lanes, Pool, Report, trial_report
from harness.sweeps.spaces.search import Search
from harness.training.interruption import ended_as_by_ctrl_c, outside
from harness.training.memory import own_garbage
from harness.training.progress import Progress
from harness.trials.lookup import provide_models
from harness.trials.output import kept_output
from harness.trials.record import Record
from harness.trials.run import attempt
from harness.trials.store import Store
from harness.trials.trial import Trial, arrived, failed, portable
from harness.trials.workers import in_threads

START_SECONDS = 10.0
"""Seconds of the start of Ray and of its workers"""


def runs_here(searches: Iterable[Search], resources: Resources, limits: Limits) -> bool:
    """Whether a sweep runs in this process unless its user says otherwise.

    It does so where one trial runs at a time, and where all of its trials together are estimated
    to take no longer than the start of Ray. Trials with limits, and those on GPUs or on a cluster,
    have processes of their own.
    """
    if os.environ.get("RAY_ADDRESS") or limits != Limits() or resources.gpus:
        return False
    if resources.gpus is None and this_machine().gpus:
        return False
    if resources.cpus <= (cores := os.cpu_count() or 1) < 2 * resources.cpus:
        return True
    if cores < resources.cpus:
        return False  # Ray says that no machine has as many
    seconds = 0.0
    for search in searches:
        trials = len(search.known_trials())
        estimate = estimated(search.known_trials()[0], this_cpu())
        if not estimate.known or search.sampler is not None:
            return False
        if search.rounds:  # then come the other rounds, of which none is known, and the finals
            trials = trials * len(search.rounds) + len(search.trials([search.fixed], "final"))
        seconds += estimate.middle * trials
    return seconds <= START_SECONDS


class LocalPool(Pool):
    """A pool of one slot and without limits.

    Ctrl-C, SIGTERM and SIGHUP save the training of the trial, and the next time it goes on.
    """

    slots, limits = 1, None

    def __init__(self, store: Store, cpus: float) -> None:
        """cpus: CPU cores of a trial."""
        self.store, self.cpus, self.sweep = store, cpus, uuid.uuid4().hex

    def check_fits(self, trials: Iterable[Trial]) -> None:
        machine = this_machine()
        room = largest_room([machine], on_gpu=bool(machine.gpus), limit=None)
        for trial in trials:
            check_fits(trial, room)

    def serve(
        self, loop: asyncio.AbstractEventLoop, sweep: asyncio.Task[None], lanes: Lanes
    ) -> None:
        with ended_as_by_ctrl_c(), in_threads(max(1, int(self.cpus))):  # as a worker of Ray has
            loop.call_soon(lanes.open, lambda held: not held)
            loop.run_until_complete(asyncio.wait([sweep]))

    async def run(self, job: Job, hearing: Hearing) -> Report:
        """Run a job in the one slot; nothing else goes on meanwhile."""
        if outside.is_set():
            raise KeyboardInterrupt
        hearing.started()
        try:
            return self._make(job) if job.part else self._run(job, hearing)
        except Postponed as why:
            return {"status": POSTPONED, "reason": str(why)}

    def map_unordered(
        self, call: Callable[[dict[str, Any], str, float], Any], jobs: Sequence[dict[str, Any]]
    ) -> Iterator[tuple[int, Any]]:
        for number, settings in enumerate(jobs):
            sent = {**settings, "trial": portable(settings["trial"]), "files": None}
            yield number, call(sent, self.store.address, self.cpus)

    def _make(self, job: Job) -> Report:
        """Make a part that trials share."""
        assert job.part
        why = None
        try:
            provide_models(self.store, job.trial)
            with postponing():
                job.part.make(lambda _: None, sorted(job.asked))
        except (TrialFailure, UserError, OSError) as error:
            why = str(error)
        return {"status": "failed" if why else "finished", "reason": why}

    def _run(self, job: Job, hearing: Hearing) -> Report:
        """Run a trial, and return the report of it."""
        # As a worker gets it: it forgets afterwards what its method declares.
        trial, key = arrived(portable(job.trial)), job.key
        streams = sys.stdout, sys.stderr

        def report(progress: Progress) -> None:
            stops = False
            # What the trial prints is for its log, and this is not.
            with redirect_stdout(streams[0]), redirect_stderr(streams[1]):
                stops = hearing.progressed(asdict(progress))
            if stops:
                raise Pruned

        def train() -> Record:
            try:
                provide_models(self.store, trial)
            except UserError as why:  # the trial that trains the encoder has failed
                return failed(trial, str(why))
            with own_garbage(), self.store.logging(key) as log, kept_output(log), postponing():
                weights, running = self.store.weights(key), self.store.running(key)
                return attempt(trial, report, weights, running)

        return trial_report(trial, key, self.store, train)
