"""The events of a running sweep, and the interface of the objects that are informed of them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

from harness.sweeps.spaces.axes import Values
from harness.sweeps.spaces.search import Search
from harness.trials.trial import Trial


class TrialWatcher:
    """Is informed of the progress of trials; one that does not care of an event does nothing."""

    def started(self, trial: Trial) -> None:
        """A worker has taken the trial."""

    def progressed(self, trial: Trial, report: Mapping[str, Any]) -> None:
        """The trial has done more steps.

        `report`: a `harness.training.progress.Progress` as a dictionary.
        """

    def ended(self, trial: Trial, report: Mapping[str, Any]) -> None:
        """The trial has finished or failed.

        `report`: its `status`, `reason` and `dev`; `logs`: the command that prints its output;
        `ran`: False where another process has finished it.
        """

    def postponed(self, trial: Trial, why: str) -> None:
        """The trial waits for another process, and other trials go first."""

    def preparing(self, title: str) -> None:
        """A worker makes a part that trials share. `title`: what it is, in words."""

    def prepared(self, title: str, reason: str | None, waiting: int) -> None:
        """A part has been made; `reason`: why it has not; `waiting`: trials that wait for it."""

    def stopping(self, running: int) -> None:
        """The sweep is interrupted while so many trials run, and waits for their checkpoints."""


def everyone(watchers: list[TrialWatcher]) -> TrialWatcher:
    """Pass the events of trials on to several watchers.

    watchers: may grow, for example when Ray's dashboard is there.
    """

    class Everyone:
        def __getattr__(self, event: str) -> Callable[..., None]:
            def tell(*facts: Any) -> None:
                for watcher in watchers:
                    getattr(watcher, event)(*facts)

            return tell

    return cast("TrialWatcher", Everyone())


class SweepWatcher(TrialWatcher):
    """Is informed of the progress of a sweep."""

    def notice(self, sentence: str) -> None:
        """Something that the user should know."""

    def round(self, title: str, to_run: int | None, stored: int, slots: int) -> None:
        """A round, a sampler or final seeds begin, beside whatever goes on.

        to_run, stored: trials that the store lacks and has; None: hours decide how many. slots:
        trials that run at a time; 0 where none is to run.
        """

    def underway(self, titles: list[str], left: int | None) -> None:
        """These rounds go on now.

        left: the number of their trials that have not ended; None: it is not known.
        """

    def chosen(self, search: Search, configuration: Values, dev: float | None) -> None:
        """A search has chosen a configuration; `dev` is None when there was only one."""


@dataclass(frozen=True, eq=False)
class Phase:
    """Trials that a search asks for at a time: a round, those of a sampler, or final seeds."""

    title: str
    """Title, shown when the phase begins; "": another phase has its trials and shows them"""
    left: Callable[[], Collection[str]]
    """The keys of the trials that have not ended; without those that a sampler may suggest"""
    stored: int = 0
    """Number of trials of which nothing was left to run when the phase began"""
    more: Callable[[], int | None] = lambda: 0
    """Number of trials that may still be suggested; None: it is not known"""
    workers: int = 1
    """Number of workers of a trial"""


class Phases:
    """The phases that go on."""

    def __init__(self, watcher: SweepWatcher, slots: Callable[[], int]) -> None:
        """`slots`: the number of workers that run at a time; it is asked when one is to run."""
        self._watcher, self._slots = watcher, slots
        self._running: list[Phase] = []
        self._new: list[Phase] = []

    @asynccontextmanager
    async def running(self, phase: Phase) -> AsyncIterator[None]:
        """In the block, a phase goes on; those that begin at one time are announced together."""
        self._running.append(phase)
        self._new.append(phase)
        await asyncio.sleep(0)  # the other searches come here meanwhile
        if phase in self._new:  # else another search has announced it
            new, self._new = self._new, []
            for title in dict.fromkeys(each.title for each in new if each.title):
                self._announce(title, [each for each in new if each.title == title])
            self._tell()
        yield
        self._running.remove(phase)
        self._tell()

    def _announce(self, title: str, phases: list[Phase]) -> None:
        to_run, stored = _left(phases), sum(each.stored for each in phases)
        # Without a trial to run, Ray need not start.
        workers = max(each.workers for each in phases)
        slots = 0 if to_run == 0 else max(1, self._slots() // workers)
        self._watcher.round(title, to_run, stored, slots)

    def _tell(self) -> None:
        if self._running:
            titles = dict.fromkeys(each.title for each in self._running if each.title)
            self._watcher.underway(list(titles), _left(self._running))


def _left(phases: Sequence[Phase]) -> int | None:
    """The number of trials that are left; one for which two phases ask counts once."""
    more = [each.more() for each in phases]
    known = [number for number in more if number is not None]
    left = len(set().union(*(each.left() for each in phases)))
    return left + sum(known) if len(known) == len(more) else None
