"""Runs the trials of a sweep in this process, one after the other, without Ray."""

import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import asdict, replace
from typing import Any

import torch

from harness.errors import Postponed, Pruned, TrialFailure, UserError
from harness.locks import postponing
from harness.sweep.cluster.machines import this_machine
from harness.sweep.cluster.room import check_fits, largest_room
from harness.sweep.queue.trial_queue import Job, TrialQueue
from harness.sweep.queue.trial_sources import TrialSource, report_of, unstored_report
from harness.sweep.screen.watcher import TrialWatcher
from harness.training.interruption import ended_by_sigterm
from harness.training.progress import Progress
from harness.trials.kept_output import kept_output
from harness.trials.record import Record
from harness.trials.run import attempt
from harness.trials.store import Store
from harness.trials.trained_encoder import provide
from harness.trials.trial import Trial, arrived, failed, portable

LOOK_SECONDS = 0.5
"""Time between two looks whether another process has made or run what the rest waits for"""


class LocalEngine:
    """An engine of one slot and without limits.

    Ctrl-C and SIGTERM save the training of the trial, which goes on from there the next time.
    """

    slots = 1

    limits = None

    def __init__(self, store: Store, cpus: float) -> None:
        """cpus: CPU cores of a trial."""
        self.store, self.cpus, self.sweep = store, cpus, uuid.uuid4().hex
        self._made: set[str] = set()
        """The keys of the parts that have been made for the trials of this sweep"""

    def __enter__(self) -> "LocalEngine":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def check_fits(self, trials: Iterable[Trial]) -> None:
        """Raises UserError for a trial that needs more memory than this machine has."""
        machine = this_machine()
        room = largest_room([machine], on_gpu=bool(machine.gpus), limit=None)
        for trial in map(replace, trials):  # a trial keeps what is asked here
            check_fits(trial, room)

    def run_from(
        self, source: TrialSource, watcher: TrialWatcher, *, only_parts: bool = False
    ) -> None:
        """Run every trial of a source once, until it is exhausted.

        Afterwards the store has all records, also those of failures. `only_parts`: make what the
        trials share, and run none of them.
        """
        queue = TrialQueue(source, self.store, self._made, only_parts=only_parts)
        with ended_by_sigterm(), _threads(self.cpus):
            while not queue.finished:
                if job := queue.next():
                    self._do(job, queue, watcher)
                else:
                    time.sleep(LOOK_SECONDS)

    def sent(self, trial: Trial) -> dict[str, Any]:
        """A trial as a worker would get it."""
        return {"trial": portable(trial), "files": None}

    def each(
        self, call: Callable[[dict[str, Any], str, float], Any], given: Sequence[dict[str, Any]]
    ) -> Iterator[tuple[int, Any]]:
        """Call a function with each of these; yield (number, what it returned)."""
        for number, settings in enumerate(given):
            yield number, call(settings, self.store.address, self.cpus)

    def _do(self, job: Job, queue: TrialQueue, watcher: TrialWatcher) -> None:
        try:
            if job.part:
                watcher.preparing(job.part.title)
                why = self._make(job)
                waiting = queue.waiting_for(job.key)
                queue.ended(job.key, {})
                watcher.prepared(job.part.title, why, waiting)
            else:
                watcher.started(job.trial)
                report = self._run(job, queue, watcher)
                queue.ended(job.key, report)
                watcher.ended(job.trial, report)
        except Postponed as why:
            queue.postponed(job.key, str(why))
            watcher.postponed(job.trial, str(why))

    def _make(self, job: Job) -> str | None:
        """Make a part; why it cannot be made."""
        assert job.part
        try:
            provide(self.store, job.trial.config.encoder)
            with postponing():
                job.part.make(lambda _: None, sorted(job.asked))
        except (TrialFailure, UserError, OSError) as error:
            return str(error)
        return None

    def _run(self, job: Job, queue: TrialQueue, watcher: TrialWatcher) -> dict[str, Any]:
        """Run a trial, and return the report of it."""
        # As a worker gets it: it forgets afterwards what its method declares.
        trial, key = arrived(portable(job.trial)), job.key
        streams, made = (sys.stdout, sys.stderr), list[Record]()

        def report(progress: Progress) -> None:
            now = asdict(progress)
            stops = queue.progressed(key, now)
            # What the trial prints is for its log, and this is not.
            with redirect_stdout(streams[0]), redirect_stderr(streams[1]):
                watcher.progressed(job.trial, now)
            if stops:
                raise Pruned

        def run() -> Record:
            try:
                provide(self.store, trial.config.encoder)
            except UserError as why:  # the trial that trains the encoder has failed
                return failed(trial, str(why))
            with self.store.logging(key) as log, kept_output(log), postponing():
                weights, running = self.store.weights(key), self.store.running(key)
                made.append(attempt(trial, report, weights, running))
            return made[0]

        try:
            record = self.store.finished_or_run(key, trial.label, run, trial.search)
        except UserError as why:
            return unstored_report(why, made)
        return report_of(record)


@contextmanager
def _threads(cpus: float) -> Iterator[None]:
    """In the block, torch has as many threads as a worker of a sweep gives it."""
    before = torch.get_num_threads()
    torch.set_num_threads(max(1, int(cpus)))
    try:
        yield
    finally:
        torch.set_num_threads(before)
