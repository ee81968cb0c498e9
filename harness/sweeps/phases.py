"""The rounds, samplers and final seeds that go on at a time, as the terminal names them."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from harness.sweeps.screen.watcher import RoundPlan, SweepWatcher


@dataclass(frozen=True, eq=False)
class Phase:
    """Trials that a search asks for at a time: a round, those of a sampler, or final seeds."""

    title: str
    """It is shown when the phase begins; "": another phase has its trials and shows them"""
    left: Callable[[], Collection[str]]
    """The keys of the trials that have not ended; without those that a sampler may suggest"""
    stored: int = 0
    """Number of trials of which nothing was left to run when the phase began"""
    more: Callable[[], int | None] = lambda: 0
    """Number of trials that may still be suggested; None: it is not known"""


class Phases:
    """The phases that go on."""

    def __init__(self, watcher: SweepWatcher, slots: Callable[[], int]) -> None:
        """`slots`: the number of trials that run at a time; it is asked when one is to run."""
        self._watcher, self._slots = watcher, slots
        self._running: list[Phase] = []
        self._new: list[Phase] = []

    async def begin(self, phase: Phase) -> None:
        """Announce a phase; those of several searches that begin now are announced together."""
        self._running.append(phase)
        self._new.append(phase)
        await asyncio.sleep(0)  # the other searches come here meanwhile
        new, self._new = self._new, []
        for title in dict.fromkeys(each.title for each in new if each.title):
            self._announce(title, [each for each in new if each.title == title])
        if new:
            self._tell()

    def end(self, phase: Phase) -> None:
        """A phase is over."""
        self._running.remove(phase)
        self._tell()

    def _announce(self, title: str, phases: list[Phase]) -> None:
        to_run, stored = _left(phases), sum(each.stored for each in phases)
        # Without a trial to run, Ray need not start.
        slots = 0 if to_run == 0 else self._slots()
        self._watcher.round(RoundPlan(title, to_run, stored, slots))

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
