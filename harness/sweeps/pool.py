"""The pool: the one seam between a sweep and what runs its trials.

A sweep (`harness.sweeps.run`) waits for a slot, and gives it a job. Workers that die, shares of
GPUs and the order in which searches get slots are matters of a pool, and of nothing else.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, Self

from harness.errors import UserError
from harness.sweeps.machines import Limits
from harness.trials.record import Record
from harness.trials.store import Store
from harness.trials.trial import Trial

if TYPE_CHECKING:
    from harness.trials.shared_parts import Part  # with torch

Report = Mapping[str, Any]
"""The end of a job: its `status`, `reason` and `dev`, its `seconds`, its `cost` in training seconds
"""
POSTPONED = "postponed"
"""The status of a job that waits for another process or gave way, and so has not ended"""
TURNS = 25
"""Turns of the event loop in which one task after the other hears of the end of a trial"""


@dataclass(frozen=True)
class Job:
    """A worker's task: it runs a trial, or makes a part that this trial and others need."""

    key: str
    trial: Trial
    part: "Part | None" = None
    """The part, which one worker makes"""
    asked: frozenset[int] = frozenset()
    """The steps after which trials end the first stage, when this is the part"""

    @property
    def workers(self) -> int:
        """Number of workers."""
        return 1 if self.part else self.trial.workers


@dataclass(frozen=True)
class Hearing:
    """The functions that hear of a job while it runs."""

    started: Callable[[], None]
    progressed: Callable[[Report], bool]
    """Gets a `harness.training.progress.Progress` as a dictionary; whether to prune the trial"""


class Pool(Protocol):
    """Runs jobs, and is a context for as long as it does."""

    sweep: str
    """Identifier of this run of a sweep"""

    limits: Limits | None
    """Limits of each trial; None: it has no process of its own that could be ended"""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        return None

    @property
    def slots(self) -> int:
        """Number of workers that run at a time, at this moment; a trial may have several."""

    def check_fits(self, trials: Iterable[Trial]) -> None:
        """Raises UserError for a trial that needs more memory than there is."""

    async def run(self, job: Job, hearing: Hearing) -> Report:
        """Run a job in a slot that the caller holds.

        The store has the record afterwards, also that of a failure.
        """

    def serve(
        self, loop: asyncio.AbstractEventLoop, sweep: asyncio.Task[None], lanes: "Lanes"
    ) -> None:
        """Run the task of a sweep to its end, and the jobs that it gives.

        `lanes`: those of its tasks that wait for slots.
        """

    def map_unordered(
        self, call: Callable[[dict[str, Any], str, float], Any], jobs: Sequence[dict[str, Any]]
    ) -> Iterator[tuple[int, Any]]:
        """Call a function with each of these; yield (number, what it returned), as they end.

        Each has its trial under `trial`, and with it what else is sent to where it runs under
        `files`. The function also gets the address of the store and its number of CPU cores.
        """


@dataclass(eq=False)
class Slot:
    """A place for a trial; its holder has it until the end of the block, or until it is freed."""

    lane: str | None
    again: bool
    """Whether something was in the way the first time"""
    workers: int
    """Number of slots that it takes"""
    more: int
    """Number of trials that are to come after this one"""
    _lanes: "Lanes"
    granted: asyncio.Future[None]
    """Done as soon as the slot is there"""
    _held: bool = True

    def free(self) -> None:
        """Give the slot back."""
        if self._held:
            self._held = False
            self._lanes.freed(self)

    def __enter__(self) -> "Slot":
        return self

    def __exit__(self, *error: object) -> None:
        self.free()


@dataclass
class Lanes:
    """The queues of those who wait for a slot, one lane for each search.

    The next slot goes to the lane that holds the fewest, and of equal ones to the one that has
    waited for the longest time. What trials share is made first, in the lane None.
    """

    room: Callable[[int], bool] = lambda _: False
    """Whether there is one more slot when so many are held; there is none without a pool.

    A trial of several workers takes one for each, and a single one when it fits nowhere: then it
    waits in the pool, where it is seen, and the others go on."""
    wanted: asyncio.Event = field(default_factory=asyncio.Event)
    """Set as soon as a slot is wanted, so that a pool is"""
    _waiting: list[Slot] = field(default_factory=list)
    _held: Counter[str | None] = field(default_factory=Counter)
    _turns: dict[str | None, int] = field(default_factory=dict)
    """Lane -> the number of its last job"""
    _turns_left: int = 0
    """Turns of the loop before free slots are given away"""

    async def slot(
        self, lane: str | None, *, again: bool = False, workers: int = 1, more: int = 0
    ) -> Slot:
        """Wait for a slot for each worker of a trial.

        `again`: before those who wait for the first time. `more`: trials that are to come after
        this one.
        """
        granted = asyncio.get_running_loop().create_future()
        slot = Slot(lane, again, workers, more, self, granted)
        self._waiting.append(slot)
        self.wanted.set()
        self._give_soon()
        await slot.granted
        return slot

    @property
    def lacking(self) -> int:
        """Number of slots for which trials wait, or are to come."""
        waiting = [each for each in self._waiting if not each.granted.done()]
        return sum(each.workers * (1 + each.more) for each in waiting)

    def open(self, room: Callable[[int], bool]) -> None:
        """There is a pool now, which says whether there is one more slot."""
        self.room = room
        self.give()

    def give(self) -> None:
        """Give away the slots that are free now."""
        self._waiting = [each for each in self._waiting if not each.granted.done()]
        while self._waiting and self.room(self._held.total()):
            slot = min(self._waiting, key=self._turn)
            workers = slot.workers if self.room(slot.workers - 1) else 1
            if not self.room(self._held.total() + workers - 1):
                break  # the slots that are free are kept for it
            self._waiting.remove(slot)
            slot.workers = workers
            self._held[slot.lane] += workers
            slot.granted.set_result(None)

    def begun(self, lane: str | None) -> None:
        """A job begins in a slot of this lane, which has had its turn."""
        self._turns[lane] = max(self._turns.values(), default=0) + 1

    def freed(self, slot: Slot) -> None:
        """A slot is free again."""
        self._held[slot.lane] -= slot.workers
        self._give_soon()

    def _give_soon(self) -> None:
        """Give away the free slots when all that follows from the end of a trial has happened.

        So those are in time who have waited for this trial.
        """
        if not self._turns_left:
            asyncio.get_running_loop().call_soon(self._wait)
        self._turns_left = TURNS

    def _wait(self) -> None:
        self._turns_left -= 1
        if self._turns_left:
            asyncio.get_running_loop().call_soon(self._wait)
        else:
            self.give()

    def _turn(self, slot: Slot) -> tuple[bool, int, int, bool]:
        """The least is the next one; of equal ones, the one that was waited for the longest."""
        lane = slot.lane
        return lane is not None, self._held[lane], self._turns.get(lane, 0), not slot.again


def finish(loop: asyncio.AbstractEventLoop) -> None:
    """End the tasks that are left in a loop, for example after Ctrl-C, and close it."""

    async def end() -> None:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    while asyncio.all_tasks(loop):
        # A task may have ended so, for example where the reader of the output has gone. Then an end
        # that had not begun is left, and cancels the next one.
        with suppress(SystemExit, KeyboardInterrupt, asyncio.CancelledError):
            loop.run_until_complete(end())
    loop.close()


def report_of(record: Record) -> dict[str, Any]:
    """The report of a trial that has ended with this record."""
    return {
        "status": record.status,
        "reason": record.reason,
        "dev": record.dev_score,
        "cost": record.training_seconds or 0.0,
        "seconds": record.wall_seconds or 0.0,
        "peak_gpu_memory_mib": record.peak_gpu_memory_mib,
        "device": record.device,
    }


def trial_report(
    trial: Trial, key: str, store: Store, train: Callable[[], Record]
) -> dict[str, Any]:
    """Train a trial, unless another process has finished it or runs it; the report of its end.

    The record is stored before. Where it cannot be, the report has its scores for the terminal.
    """
    made: list[Record] = []

    def run() -> Record:
        made.append(train())
        return made[0]

    try:
        record = store.finished_or_run(key, trial.label, run, trial.search)
        return report_of(record) | {"ran": bool(made)}
    except UserError as why:
        scores = {name: value for each in made for name, value in {**each.dev, **each.test}.items()}
        shown = ", ".join(f"{name} {value:.2f}" for name, value in scores.items())
        reason = f"{why}; its scores: {shown}" if shown else str(why)
        return {"status": "failed", "reason": reason, "dev": None}
