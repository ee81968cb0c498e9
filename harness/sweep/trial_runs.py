"""The trials of a sweep: those that the store lacks are run, and all of them are remembered."""

from collections.abc import Callable, Generator, Iterable
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from harness.sweep.cost import training_operations
from harness.sweep.scored import settled_keys
from harness.sweep.search import Search
from harness.sweep.trial_sources import Listed, Together, TrialSource
from harness.sweep.watcher import RoundPlan, SweepWatcher
from harness.trials.prepare import check_runnable
from harness.trials.store import Store
from harness.trials.trial import Trial, key

if TYPE_CHECKING:
    from harness.sweep.ray_engine import Engine


class TrialRuns:
    """Knows the trials that the searches of a sweep ask for, and which of them are to run."""

    def __init__(self, store: Store, start: Callable[[], "Engine"], watcher: SweepWatcher) -> None:
        """`start`: gives what runs trials; it is called when there is one to run."""
        self.store, self.watcher = store, watcher
        self._start = start
        self.trainers: dict[str, Trial] = {}
        """Key -> trial whose encoder others start from"""
        self._asked: dict[str, Trial] = {}
        """Key -> every trial that a round or the final seeds asked for"""
        self._checked: set[str] = set()
        """Searches of which it is known that their trials can run"""

    @cached_property
    def engine(self) -> "Engine":
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
            check_runnable(search.trials([search.fixed], "final")[0])
            self._checked.add(search.id)

    def run(
        self,
        searches: list[Search],
        trials: list[Trial],
        title: str,
        source: Callable[[], TrialSource] | None = None,
    ) -> Generator[TrialSource, None, set[str]]:
        """Yield those trials that the store has not settled, to be run; return the keys of all.

        Equal trials run once. `searches`: those that may have asked for them. `source`: gives what
        decides which of the trials run, and when; None: all of them run.
        """
        # A later round may ask for a configuration that an earlier one has tried.
        starts = {replace(trial).start for trial in trials}
        by_key = {name: each for name, each in self.trainers.items() if name in starts}
        by_key |= _by_key(trials)
        self._asked |= {name: replace(trial) for name, trial in by_key.items()}
        settled = settled_keys(by_key, self.store)
        missing = {name: trial for name, trial in by_key.items() if name not in settled}
        # Without a trial to run, Ray need not start.
        slots = self.engine.slots if missing else 0
        self.watcher.round(RoundPlan(title, len(missing), len(by_key) - len(missing), slots))
        if missing:
            wanted = {trial.search for trial in missing.values()}
            for search in searches:
                if search.id in wanted:
                    self.check(search)
            yield self._source_of(missing, source)
            self.store.compact()  # many small files are slow to read
        return set(by_key)

    def _source_of(
        self, missing: dict[str, Trial], source: Callable[[], TrialSource] | None
    ) -> TrialSource:
        # Long trials first, so that at the end no worker is idle while another has a long one.
        work = {name: training_operations(replace(each).declared) for name, each in missing.items()}
        order = sorted(missing, key=lambda name: -work[name])
        # What decides about a search's trials does not know those that train its encoder.
        listed = [name for name in order if source is None or name in self.trainers]
        sources: list[TrialSource] = [Listed({name: missing[name] for name in listed})]
        sources += [source()] if source else []
        return Together(sources)

    def prepare(self, trials: list[Trial]) -> None:
        """Make what those of the trials share that the store has not finished."""
        by_key = _by_key(trials)
        missing = {name: by_key[name] for name in by_key.keys() - self.store.finished_keys()}
        if missing:
            self.engine.prepare(missing, self.watcher)

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


def _by_key(trials: Iterable[Trial]) -> dict[str, Trial]:
    """Key -> trial. A trial remembers what its method declares, so copies are asked for the keys.

    That is some kilobytes of each of the trials that wait.
    """
    return {key(replace(trial)): trial for trial in trials}
