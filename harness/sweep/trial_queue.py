"""The trials of a round that wait for a worker, and those that wait for another process."""

import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from harness.claims import owner_of
from harness.trials.store import Store
from harness.trials.trial import Trial

LOOK_SECONDS = 2.0
"""Time between two looks at the claims of other processes"""
PROBE_SECONDS = 5.0
"""Time after which one trial tries whether another process still makes what several wait for"""


class TrialSource(Protocol):
    """Where the trials of a queue come from."""

    def more(self) -> Mapping[str, Trial]:
        """Key -> further trials; nothing when there are none now."""

    def progressed(self, key: str, report: Mapping[str, Any]) -> bool:
        """A trial has done more steps; returns whether it is to end now, as pruned.

        `report`: a `harness.training.progress.Progress` as a dictionary.
        """

    def ended(self, key: str, report: Mapping[str, Any]) -> None:
        """A trial has ended.

        `report`: its `status`, `reason` and `dev`, its `seconds`, and its `cost` in training
        seconds.
        """

    @property
    def exhausted(self) -> bool:
        """Whether no further trial will come."""


class Listed:
    """A list of trials that is known from the beginning."""

    def __init__(self, trials: Mapping[str, Trial]) -> None:
        self._trials = trials

    def more(self) -> Mapping[str, Trial]:
        """All trials, once."""
        trials, self._trials = self._trials, {}
        return trials

    def progressed(self, key: str, report: Mapping[str, Any]) -> bool:
        """No trial ends before its last step."""
        return False

    def ended(self, key: str, report: Mapping[str, Any]) -> None:
        """Nothing follows from a result."""

    @property
    def exhausted(self) -> bool:
        """Whether the trials have been taken."""
        return not self._trials


class Together:
    """Several sources at a time. A trial that two of them have runs once."""

    def __init__(self, sources: Sequence[TrialSource]) -> None:
        self.sources = sources

    def more(self) -> Mapping[str, Trial]:
        """Further trials of the first source that has any now."""
        return next(filter(None, (source.more() for source in self.sources)), {})

    def progressed(self, key: str, report: Mapping[str, Any]) -> bool:
        """Whether the trial is to end now, because one of the sources says so."""
        stops = [source.progressed(key, report) for source in self.sources]
        return any(stops)

    def ended(self, key: str, report: Mapping[str, Any]) -> None:
        """Tell all sources; those that do not have the trial know that."""
        for source in self.sources:
            source.ended(key, report)

    @property
    def exhausted(self) -> bool:
        """Whether all sources are exhausted."""
        return all(source.exhausted for source in self.sources)


class TrialQueue:
    """Hands out trials one after the other.

    A trial that another process runs, or that needs what another process makes, comes later: it
    occupies no worker meanwhile, and the other trials go first.
    """

    def __init__(self, source: TrialSource, store: Store) -> None:
        self.source, self.store = source, store
        self._trials: dict[str, Trial] = {}
        """Key -> every trial that has not ended"""
        self._ready: deque[str] = deque()
        self.given: set[str] = set()
        """The keys of the trials that workers have"""
        self._waiting: dict[str, str] = {}
        """Key of a trial that waits -> what it waits for"""
        self._tried: dict[str, float] = {}
        """What is waited for -> when a trial last tried whether it is there"""
        self._looked = 0.0

    @property
    def finished(self) -> bool:
        """Whether all trials have ended and no further one will come."""
        return self.source.exhausted and not self._trials

    def next(self) -> tuple[str, Trial] | None:
        """The next trial with its key; None when there is none at this moment."""
        self._look()
        if not self._ready:
            self._add(self.source.more())
        while self._ready:
            key = self._ready.popleft()
            owner = owner_of(self.store.claim(key))
            if owner is None:
                self.given.add(key)
                return key, self._trials[key]
            self.postponed(key, f"{owner} works on {self._trials[key].label}")
        return None

    def progressed(self, key: str, report: Mapping[str, Any]) -> bool:
        """The trial trains; returns whether it is to end now, as pruned."""
        self._is_there(key)
        return self.source.progressed(key, report)

    def _is_there(self, key: str) -> None:
        """What the trial waited for is there: the others need not wait any more."""
        why = self._waiting.get(key)
        if why is not None:
            del self._tried[why]
            waited = self._waits_for(why)
            self._ready.extend(each for each in waited if each != key)
            for each in waited:
                del self._waiting[each]

    def postponed(self, key: str, why: str) -> None:
        """The trial waits for another process. `why`: what the other one does."""
        self.given.discard(key)
        self._waiting.pop(key, None)  # it goes behind the others that wait
        self._waiting[key] = why
        self._tried.setdefault(why, time.monotonic())

    def ended(self, key: str, report: Mapping[str, Any]) -> None:
        """The trial has finished or failed."""
        self._is_there(key)
        self.given.discard(key)
        if self._trials.pop(key, None) is not None:
            self.source.ended(key, report)

    def _add(self, trials: Mapping[str, Trial]) -> None:
        for key, trial in trials.items():
            if key not in self._trials:  # a sampler may suggest the same configuration twice
                self._trials[key] = trial
                self._ready.append(key)

    def _look(self) -> None:
        """Where several trials wait for the same, let one of them try again when it is time."""
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        for why in dict.fromkeys(self._waiting.values()):
            keys = self._waits_for(why)
            trying = any(key in self.given or key in self._ready for key in keys)
            if trying or now - self._tried[why] < PROBE_SECONDS:
                continue
            if owner_of(self.store.claim(keys[0])) is None:
                self._tried[why] = now
                self._ready.append(keys[0])

    def _waits_for(self, why: str) -> list[str]:
        """The keys of the trials that wait for this, the longest first."""
        return [key for key, waited in self._waiting.items() if waited == why]
