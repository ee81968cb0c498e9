"""The trials of a sweep: those that the store lacks are run, and all of them are remembered."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from harness.errors import UserError
from harness.sweep.engine import Engine
from harness.sweep.queue.trial_sources import Listed
from harness.sweep.screen.watcher import RoundPlan, SweepWatcher
from harness.sweep.searching.courses import Begun, Phase, known_sum
from harness.sweep.searching.scored import settled_keys
from harness.sweep.spaces.search import Search
from harness.trials.store import Store
from harness.trials.trial import Trial, key

if TYPE_CHECKING:
    from harness.sweep.searching.suggestions import Suggestions


class TrialRuns:
    """Knows the trials that the searches of a sweep ask for, and which of them are to run."""

    def __init__(self, store: Store, start: Callable[[], Engine], watcher: SweepWatcher) -> None:
        """`start`: gives what runs trials; it is called when there is one to run."""
        self.store, self.watcher = store, watcher
        self._start = start
        self._asked: dict[str, Trial] = {}
        """Key -> every trial that a phase of a search asked for"""
        self._checked: set[str] = set()
        """Searches of which it is known that their trials can run"""

    @cached_property
    def engine(self) -> Engine:
        """What runs trials."""
        return self._start()

    def check_first(self, searches: list[Search]) -> None:
        """Check every search that the store has not finished, before anything runs."""
        known = [_by_key(each.known_trials()) for each in searches]
        settled = settled_keys({name: each[name] for each in known for name in each}, self.store)
        for search, trials in zip(searches, known, strict=True):
            if trials.keys() - settled:
                self.check(search)
        if missing := {name: each[name] for each in known for name in each.keys() - settled}:
            self.engine.check_fits(missing.values())

    def check(self, search: Search) -> None:
        """Check that the trials of a search can run, unless that is known.

        Raises UserError when they cannot.
        """
        if search.id not in self._checked:
            from harness.trials.prepare import check_runnable  # with torch

            check_runnable(search.trials([search.fixed], "final")[0])
            self._checked.add(search.id)

    def begin(self, phases: Sequence[Phase]) -> list[Begun]:
        """Say what the store lacks of these phases, and announce those with one title together.

        Raises UserError for trials that cannot run.
        """
        asked = [_by_key(phase.trials) for phase in phases]
        every = {name: trial for trials in asked for name, trial in trials.items()}
        self._asked |= {name: replace(trial) for name, trial in every.items()}
        settled = settled_keys(every, self.store) if every else set()
        begun, plans = [], dict[str, _Counts]()
        for phase, trials in zip(phases, asked, strict=True):
            missing = {name: trial for name, trial in trials.items() if name not in settled}
            source = phase.source() if phase.source and (missing or not trials) else None
            plan = plans.setdefault(phase.title, _Counts())
            plan.missing |= missing.keys()
            plan.stored |= trials.keys() & settled
            if source and not trials:
                plan.suggested.append(source)
            if missing or (source and not source.exhausted):
                self.check(phase.search)
                if source:
                    source.at_a_time = self.engine.slots
            begun.append(Begun({} if source else missing, source))
        for title, plan in plans.items():
            if title:
                # Without a trial to run, Ray need not start.
                slots = 0 if plan.to_run == 0 else self.engine.slots
                self.watcher.round(RoundPlan(title, plan.to_run, plan.settled, slots))
        return begun

    def prepare(self, trials: list[Trial]) -> None:
        """Make what those of the trials share that the store has not finished."""
        by_key = _by_key(trials)
        missing = {name: by_key[name] for name in by_key.keys() - self.store.finished_keys()}
        if missing:
            self.watcher.underway(["what trials share"], len(_parts(missing.values())))
            self.engine.run_from(Listed(missing), self.watcher, only_parts=True)

    def failed(self, searches: list[Search]) -> int:
        """The number of trials of this sweep without scores in the store.

        They are planned ones, also those whose record could not be written, and ones of samplers.
        """
        samplers = {search.id for search in searches if search.sampler is not None}
        failed = self.store.read(("search", "role"), pc.field("status") == "failed").table
        sampled = {
            row["key"]
            for row in failed.to_pylist()
            if row["search"] in samplers and row["role"] == "search"
        }
        return len(sampled | (self._asked.keys() - settled_keys(self._asked, self.store)))


@dataclass
class _Counts:
    """The trials of the phases with one title."""

    missing: set[str] = field(default_factory=set)
    stored: set[str] = field(default_factory=set)
    suggested: "list[Suggestions]" = field(default_factory=list)
    """Of samplers, whose trials are not known"""

    @property
    def to_run(self) -> int | None:
        """Number of trials to run; None: as many as the hours of a sampler's budget allow."""
        return known_sum([len(self.missing), *(each.to_run for each in self.suggested)])

    @property
    def settled(self) -> int:
        """Number of trials of which nothing is left to run."""
        return len(self.stored) + sum(each.settled for each in self.suggested)


def _parts(trials: Iterable[Trial]) -> set[str]:
    """The keys of the parts that the trials lack, as far as it is known now."""
    from harness.trials.shared_parts import missing_parts  # with torch

    found: set[str] = set()
    for trial in trials:
        with suppress(UserError):  # the trial itself says in its record what is missing
            found |= {part.key for part in missing_parts(replace(trial))}
    return found


def _by_key(trials: Iterable[Trial]) -> dict[str, Trial]:
    """Key -> trial. A trial remembers what its method declares, so copies are asked for the keys.

    That is some kilobytes of each of the trials that wait.
    """
    return {key(replace(trial)): trial for trial in trials}
