"""A trial of a sweep, from the first one who asks for it to its record.

It runs once, however many searches ask. It holds no slot while something is in its way: the trial
that trains its encoder, a part that it shares with others, or another process.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from harness.errors import UserError
from harness.sweeps.pool import POSTPONED, Hearing, Job, Lanes, Pool, Report, Slot
from harness.sweeps.screen.watcher import TrialWatcher
from harness.trials.store import SMALL_FILES, Store
from harness.trials.trial import Trial

if TYPE_CHECKING:
    from harness.trials.shared_parts import Part

LOOK_SECONDS = 2.0
"""Time between two looks at the claims of other processes"""
PROBE_SECONDS = 5.0
"""Time after which one job tries whether another process still makes what several wait for"""


class CompleteTrials:
    """The trials of which nothing is left to run, as the store had them when a sweep began.

    The sweep adds its own as they end.
    """

    def __init__(self, store: Store) -> None:
        rows = store.read(("search",), {"status": ["finished", "pruned"]}).table.to_pylist()
        self.finished = {row["key"] for row in rows if row["status"] == "finished"}
        self._pruned_by = {row["key"]: row["search"] for row in rows if row["status"] == "pruned"}

    def ended(self, name: str, trial: Trial, status: str) -> None:
        """A trial has ended with this status."""
        if status == "finished":
            self.finished.add(name)
        elif status == "pruned":
            self._pruned_by[name] = trial.search

    def keys(self, trials: Mapping[str, Trial]) -> set[str]:
        """The keys of those trials that have finished, or that their own search has pruned."""
        by = self._pruned_by
        ours = {name for name, trial in trials.items() if by.get(name) == trial.search}
        return ours | (trials.keys() & self.finished)


class TrialRuns:
    """The trials of a sweep that run or wait, and the parts that they share."""

    def __init__(
        self, store: Store, lanes: Lanes, pool: Callable[[], Pool], watcher: TrialWatcher
    ) -> None:
        """`pool`: gives what does the work; it is called when something is to be done."""
        self.store, self.complete, self.lanes = store, CompleteTrials(store), lanes
        self.pool, self.watcher = pool, watcher
        self.reports: dict[str, asyncio.Task[Report]] = {}
        """Key -> the run of a trial for which somebody has asked"""
        self.expected: dict[str, Trial] = {}
        """Key -> a trial that will be asked for"""
        self._hear: dict[str, list[Callable[[Report], bool]]] = defaultdict(list)
        self.parts: dict[str, _Part] = {}
        """Key -> a part that is being made"""
        self._made: set[str] = set()
        """The keys of the parts of which nothing is left to try"""
        self._others = _OtherProcesses()
        self._ended = 0
        self._thread = ThreadPoolExecutor(1, "compaction")

    async def report(
        self,
        key: str,
        trial: Trial,
        lane: str,
        slot: Slot | None = None,
        progressed: Callable[[Report], bool] | None = None,
    ) -> Report:
        """Run a trial, unless somebody has asked for it before; return the report of its end.

        `slot`: one that the caller holds and gives away. `progressed`: hears of its progress, and
        says whether it is to be pruned.
        """
        if progressed:
            self._hear[key].append(progressed)
        if key in self.reports and slot:
            slot.free()
        return await asyncio.shield(self._begun(key, trial, lane, slot))

    def _begun(
        self, key: str, trial: Trial, lane: str, slot: Slot | None = None
    ) -> asyncio.Task[Report]:
        """The run of a trial, which begins now if it has not before."""
        if key not in self.reports:
            self.reports[key] = asyncio.create_task(self._run(Job(key, trial), lane, slot))
        return self.reports[key]

    async def _run(self, job: Job, lane: str, slot: Slot | None) -> Report:
        trial = job.trial

        def needs() -> Sequence[asyncio.Task[Any]]:
            """The tasks for which the trial waits: the training of its encoders, then parts."""
            for start in trial.starts:
                if start in self.expected:
                    self._begun(start, self.expected[start], lane)
            trained = [self.reports[start] for start in trial.starts if start in self.reports]
            return [task for task in trained if not task.done()] or self._missing(job.key, trial)

        def progressed(report: Report) -> bool:
            self._others.there(job.key)
            self.watcher.progressed(trial, report)
            stops = [hears(report) for hears in self._hear[job.key]]  # all of them hear
            return any(stops)

        hearing = Hearing(lambda: self.watcher.started(trial), progressed)
        report = await self._work(job, lane, slot, hearing, needs)
        self._hear.pop(job.key, None)
        self.complete.ended(job.key, trial, report["status"])
        self.watcher.ended(trial, report)
        self._ended += 1
        if self._ended % SMALL_FILES == 0:
            self._thread.submit(self.store.compact)  # which takes a while, and the sweep goes on
        return report

    def compact(self) -> None:
        """Compact the store, and wait for it; many small files are slow to read."""
        self._thread.submit(self.store.compact).result()

    async def _work(
        self,
        job: Job,
        lane: str | None,
        slot: Slot | None,
        hearing: Hearing,
        needs: Callable[[], Sequence[asyncio.Task[Any]]],
    ) -> Report:
        """Do a job as soon as what it needs is there, and no other process does it."""
        again = True
        while True:
            with slot or await self.lanes.slot(lane, again=again, workers=job.workers):
                self.expected.pop(job.key, None)
                tasks = needs()
                if tasks:
                    wait: Awaitable[Any] = asyncio.gather(*tasks)
                elif self.store.owner(job.key) is not None:
                    wait = asyncio.sleep(LOOK_SECONDS)
                else:
                    self.lanes.begun(lane)
                    part = self.parts.get(job.key)
                    report = await self.pool().run(part.begun() if part else job, hearing)
                    if report["status"] != POSTPONED:
                        self._others.there(job.key)
                        return report
                    if part:
                        part.running = False
                    self.watcher.postponed(job.trial, report["reason"])
                    why = report.get("waits_for", report["reason"])
                    wait = self._others.wait(job.key, why)
            slot, again = None, bool(tasks)  # what waits for another process comes later
            await wait

    # What trials share

    async def prepared(self, key: str, trial: Trial) -> None:
        """Wait until all parts are made that the trial lacks."""
        while parts := self._missing(key, trial):
            await asyncio.gather(*parts)

    def _missing(self, key: str, trial: Trial) -> list[asyncio.Task[None]]:
        """The parts that the trial lacks; of those that nobody makes, the making begins.

        They are made in slots of their own, which come before those of trials.
        """
        from harness.trials.shared_parts import missing_parts  # with torch

        try:
            missing = [each for each in missing_parts(trial) if each.key not in self._made]
        except UserError:  # the trial itself says in its record what is missing
            return []
        for part in missing:
            if part.key not in self.parts:
                self.parts[part.key] = _Part(Job(part.key, trial, part))
                self.parts[part.key].task = asyncio.create_task(self._make(part))
            self.parts[part.key].add(key, trial, part)
        return [self.parts[part.key].task for part in missing]

    async def _make(self, part: "Part") -> None:
        def needs() -> Sequence[asyncio.Task[Any]]:
            """Nothing; but all trials say how long a first stage they need, before it begins."""
            if part.steps:
                for key, trial in self.expected.items():
                    self._missing(key, trial)
            return []

        def progressed(_: Report) -> bool:
            self._others.there(part.key)
            return False

        hearing = Hearing(lambda: self.watcher.preparing(part.title), progressed)
        job = self.parts[part.key].job
        report = await self._work(job, None, None, hearing, needs)
        waiting = self.parts.pop(part.key).waiting
        self._made.add(part.key)
        self.watcher.prepared(part.title, report["reason"], len(waiting))


class _Part:
    """A part that is being made, and the trials that wait for it."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.task: asyncio.Task[None]
        self.waiting: set[str] = set()
        self._asked: set[int] = set()
        """The steps after which trials end the first stage, when this is the part"""
        self.running = False

    def add(self, key: str, trial: Trial, part: "Part") -> None:
        """One more trial waits. Of two first stages, the longer one is made for both."""
        self.waiting.add(key)
        if part.steps and not self.running:
            self._asked.add(part.steps)
            if self.job.part and part.steps > self.job.part.steps:
                self.job = Job(part.key, trial, part)

    def begun(self) -> Job:
        """The job, which a worker gets now."""
        self.running = True
        return replace(self.job, asked=frozenset(self._asked))


class _OtherProcesses:
    """The work of other processes, and the jobs that wait for it.

    Where several wait for the same, one of them tries after a while whether it is there.
    """

    def __init__(self) -> None:
        self._lines: dict[str, dict[str, asyncio.Event]] = {}
        """Work of others -> the jobs that wait for it; the first one tries, and its event is set"""

    async def wait(self, key: str, why: str) -> None:
        """Wait until this job may try again. `why`: what another process does."""
        for other, line in self._lines.items():
            if line.pop(key, None):
                self._first_tries(other)
        turn = self._lines.setdefault(why, {})[key] = asyncio.Event()
        self._first_tries(why)
        await turn.wait()
        if key in self._lines.get(why, {}):  # else another job has found that it is there
            await asyncio.sleep(PROBE_SECONDS)

    def there(self, key: str) -> None:
        """The job has what it waited for: the others need not wait any more."""
        for why in [why for why, line in self._lines.items() if key in line]:
            for turn in self._lines.pop(why).values():
                turn.set()

    def _first_tries(self, why: str) -> None:
        for turn in list(self._lines[why].values())[:1]:
            turn.set()
