"""Searches whose trials are played and not run: no Ray, no training, real studies and stores."""

import asyncio
import selectors
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from harness.sweeps.configurations import Configurations
from harness.sweeps.pool import Hearing, Job, Lanes, Report, report_of
from harness.sweeps.screen.watcher import TrialWatcher
from harness.sweeps.spaces.overrides import Overrides
from harness.sweeps.spaces.search import Search
from harness.sweeps.spaces.searches import searches
from harness.sweeps.spaces.space import load_space
from harness.sweeps.study import Study
from harness.sweeps.trial_runs import TrialRuns
from harness.trials.record import Record
from harness.trials.shared_parts import missing_parts
from harness.trials.store import Store
from harness.trials.trial import Trial, describe

HEAD = """\
suite: graded
select: {metric: graded-dev}
encoders: [tiny-bert]
set: {sentences: graded-sentences, max_steps: 8, evaluation_interval: 2, batch_size: 8}
"""
SMALL = {"encoder": "tiny-bert", "suite": "graded", "sentences": "graded-sentences"}
"""A configuration whose data come with harness"""


class Killed(KeyboardInterrupt):
    """The driver of a played sweep ends without a word."""


@dataclass
class Played:
    """Events of a played sweep."""

    ran: list[Trial] = field(default_factory=list)
    """The trials that ran, in the order in which they ended"""
    stopped: dict[float, int] = field(default_factory=dict)
    """Learning rate of a trial that was pruned -> the evaluation after which it ended"""

    @property
    def rates(self) -> list[float]:
        """The learning rates of the trials."""
        return [trial.configuration["learning_rate"] for trial in self.ran]


Curve = Callable[[Trial], list[float]]


class PlayedPool:
    """A pool in which trials are played one after the other, each with a made-up dev curve."""

    slots = 1

    def __init__(self, store: Store, curve: Curve, kill_after: int) -> None:
        self.store, self.curve, self.kill_after = store, curve, kill_after
        self.played = Played()

    async def run(self, job: Job, hearing: Hearing) -> Report:
        if job.part:
            return {"status": "finished", "reason": None}
        trial = job.trial
        points, done = self.curve(trial), 0
        for number, score in enumerate(points, 1):
            done = number
            steps = {"step": 2 * number, "total_steps": 2 * len(points)}
            stops = hearing.progressed({**steps, "evaluation": number, "best_dev": score})
            if self.kill_after == len(self.played.ran):
                raise Killed
            if stops:
                self.played.stopped[trial.configuration["learning_rate"]] = number
                break
        self.played.ran.append(trial)
        record = _record(trial, points[:done], pruned=done < len(points))
        self.store.write(record)
        return report_of(record)


class HandPool:
    """A pool whose jobs end when a test says so."""

    def __init__(self, slots: int = 1, store: Store | None = None, *, parts: bool = False) -> None:
        """`store`: gets the record of a trial that ends. `parts`: whether they are jobs, too."""
        self.slots, self.store, self.parts = slots, store, parts
        self.begun: list[Job] = []
        """Every job that has begun, in order"""
        self.running: dict[str, tuple[Hearing, asyncio.Future[Report]]] = {}

    async def run(self, job: Job, hearing: Hearing) -> Report:
        if job.part and not self.parts:
            return {"status": "finished", "reason": None}
        ended: asyncio.Future[Report] = asyncio.get_running_loop().create_future()
        self.begun.append(job)
        self.running[job.key] = hearing, ended
        return await ended

    @property
    def keys(self) -> list[str]:
        """The keys of the jobs that have begun."""
        return [job.key for job in self.begun]

    @property
    def names(self) -> list[str]:
        """The methods and roles of the trials that have begun."""
        return [f"{job.trial.method} {job.trial.role}" for job in self.begun]

    async def end(self, key: str, status: str = "finished", **report: Any) -> None:
        """A job ends, and what waits for it goes on. Arrays that have finished are there."""
        job = next(job for job in self.begun if job.key == key)
        if job.part and job.part.arrays and status == "finished":
            job.part.arrays.read()
        elif self.store and status == "finished":
            self.store.write(_record(job.trial, [report.get("dev", 50.0)], pruned=False))
        usual = {"reason": None, "dev": 50.0, "cost": 0.0, "seconds": 0.0}
        self.running.pop(key)[1].set_result({**usual, "status": status, **report})
        await settled()

    def runs(self, store: Store) -> TrialRuns:
        """The trials of a sweep on this pool."""
        pool = cast("Any", self)
        lanes = Lanes(lambda held: held < self.slots)
        return TrialRuns(store, lanes, lambda: pool, TrialWatcher())


class _Skipping(selectors.DefaultSelector):
    """Waits for no timer, and counts the seconds that it would have waited."""

    skipped = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0 if timeout else timeout)
        self.skipped += 0 if ready else timeout or 0
        return ready


class Hurried(asyncio.SelectorEventLoop):
    """A loop whose clock is at the next timer when nothing else is to be done, or stands still."""

    def __init__(self) -> None:
        self._skipping = _Skipping()
        super().__init__(self._skipping)

    def time(self) -> float:
        return self._skipping.skipped


async def settled() -> None:
    """Wait until all tasks wait."""
    for _ in range(300):
        await asyncio.sleep(0)


@dataclass
class Playing:
    """Searches with SimCSE in one store, whose trials are played."""

    store: Store
    searches_of: Callable[..., list[Search]]

    def search(self, part: str, *lines: str, **values: Any) -> Search:
        """The search of a part of the method and of lines of the space.

        `values`: those that the command line sets.
        """
        head = HEAD
        if any(line.startswith("select") for line in lines):
            head = head.replace("select: {metric: graded-dev}\n", "")
        text = head + "".join(f"{line}\n" for line in lines) + f"methods:\n  simcse:\n{part}"
        [search] = self.searches_of(text, values=values)
        return search

    def source(self, search: Search) -> Configurations:
        """Its configurations with the study on disk, as a new process finds them there."""
        listed = search.configurations(0, []) if search.rounds else None
        return Configurations(search, self.study(search), self.store, listed)

    def study(self, search: Search) -> Study:
        return Study(search, self.store)

    def states(self, search: Search) -> list[str]:
        """The states of the trials of its study."""
        return [trial.state.name for trial in self.study(search).trials()]

    def forget_studies(self) -> None:
        shutil.rmtree(self.store.studies_folder)

    def play(self, search: Search | Configurations, curve: Curve, kill_after: int = -1) -> Played:
        """Run configurations one after the other, each with the dev curve that `curve` gives.

        An empty curve is a failure. `kill_after`: the number of trials after which the driver is
        killed, in the middle of the next one, after its first evaluation.
        """
        source = search if isinstance(search, Configurations) else self.source(search)
        pool: Any = PlayedPool(source.store, curve, kill_after)

        async def run() -> None:
            lanes = Lanes(lambda held: held < pool.slots)
            runs = TrialRuns(source.store, lanes, lambda: pool, TrialWatcher())
            await source.run(runs, lambda: pool.slots)

        asyncio.run(run())
        assert to_run(source) == 0
        return pool.played

    def over(self, search: Search) -> bool:
        """Whether a new process finds nothing to run."""
        return to_run(self.source(search)) == 0


def to_run(source: Configurations) -> int:
    """The number of trials that are left."""
    return len(source.left) + source.more()


def _record(trial: Trial, points: list[float], *, pruned: bool) -> Record:
    """The record of a trial, as a worker writes it."""
    dev = max(points, default=None)
    history = [
        {"step": 2 * number, "stage": "contrastive", "metric": "dev", "value": value}
        for number, value in enumerate(points, 1)
    ]
    return replace(
        describe(trial), status="pruned" if pruned else "finished" if points else "failed",
        dev={} if dev is None else {"graded-dev": dev}, history=history,
        training_seconds=float(trial.configuration.get("max_steps", 8)), wall_seconds=3600.0,
    )  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def searches_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Search]]:
    """searches_of(text, option=value, ...): the searches of a space, narrowed by the options."""
    monkeypatch.delenv("HARNESS_HUB", raising=False)

    def load(text: str, **options: Any) -> list[Search]:
        path = tmp_path / "space.yaml"
        path.write_text(text, encoding="utf-8")
        return searches(*load_space(path), Overrides(**options))

    return load


@pytest.fixture
def playing(store: Store, searches_of: Callable[..., list[Search]]) -> Playing:
    return Playing(store, searches_of)


@pytest.fixture(scope="session")
def parts_made() -> None:
    """The parts are there that trials of SimCSE share."""
    while parts := missing_parts(Trial("simcse", SMALL, 0)):
        for part in parts:
            part.make(lambda _: None, ())
