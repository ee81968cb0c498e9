"""Sweeps in the process of the test, one trial after the other, for what does not depend on Ray."""

import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from harness.errors import Pruned
from harness.plugin import registry
from harness.sweep.queue.trial_queue import Job, TrialQueue
from harness.sweep.queue.trial_sources import TrialSource
from harness.training.progress import Progress
from harness.trials.run import attempt
from harness.trials.store import Store
from harness.trials.trained_encoder import provide
from harness.trials.trial import Trial
from tests.programs import Answer


class SerialEngine:
    """What `harness.sweep.cluster.ray_engine.Engine` is to a sweep, without Ray."""

    slots = 1

    def __init__(self, store: Store, *_: object) -> None:
        self.store = store

    def __enter__(self) -> "SerialEngine":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def check_fits(self, trials: Iterable[Trial]) -> None:
        """Every trial of a test fits."""

    def run_from(self, source: TrialSource, watcher: Any) -> None:
        """Run the jobs of the source until it is exhausted."""
        queue = TrialQueue(source, self.store, set(), slots=self.slots)
        while not queue.finished:
            job = queue.next()
            if job is None:
                continue
            if job.part:
                job.part.make(lambda _: None, sorted(job.asked))
                queue.ended(job.key, {})
            else:
                watcher.started(job.trial)
                report = self._run(job, queue)
                queue.ended(job.key, report)
                watcher.ended(job.trial, report)

    def _run(self, job: Job, queue: TrialQueue) -> dict[str, Any]:
        # A record names the plugin as a worker finds it, in whatever folder that runs.
        trial = Trial(**{**asdict(job.trial), "method": str(registry.locate(job.trial.method))})
        provide(self.store, trial.config.encoder)

        def report(progress: Progress) -> None:
            if queue.progressed(job.key, asdict(progress)):
                raise Pruned

        record = self.store.finished_or_run(
            job.key,
            trial.label,
            lambda: attempt(
                trial,
                report,
                self.store.weights(job.key),
                self.store.running(job.key),
            ),
            trial.search,
        )
        return {"status": record.status, "reason": record.reason, "dev": record.dev_score,
                "cost": 0.0, "seconds": 0.0}  # fmt: skip


@pytest.fixture(scope="session")
def serially(cache: Path) -> Callable[..., Answer]:
    """serially(argument, ...): `harness sweep` with these arguments in this process."""

    def call(*arguments: object) -> Answer:
        from harness.cli.verbs import app

        with pytest.MonkeyPatch.context() as patch:
            patch.delenv("HARNESS_HUB", raising=False)
            patch.setenv("HARNESS_CACHE", str(cache))
            patch.setenv("HARNESS_TEST_PAUSE", "0")
            engine = SimpleNamespace(Engine=SerialEngine)
            patch.setitem(sys.modules, "harness.sweep.cluster.ray_engine", engine)
            answer = CliRunner().invoke(app, ["sweep", *map(str, arguments)])
        if answer.exception and not isinstance(answer.exception, SystemExit):
            raise answer.exception
        return Answer(answer.exit_code, answer.stdout, answer.stderr)

    return call
