"""A sweep: all searches, round by round, then each chosen configuration on the final seeds.

The store says what is left to do, so an interrupted sweep goes on when the same command is given.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from harness.files import check_cache
from harness.sweep.axes import Values
from harness.sweep.limits import Limits
from harness.sweep.resources import Resources
from harness.sweep.sampling import Sampler
from harness.sweep.scored import Scored, chosen_of, sampled_of, scored_of, tried_of
from harness.sweep.search import Search
from harness.sweep.trial_queue import Listed, Together, TrialSource
from harness.sweep.watcher import RoundPlan, SweepWatcher
from harness.trials.prepare import check_runnable
from harness.trials.store import Store
from harness.trials.trial import Trial, key

if TYPE_CHECKING:
    from harness.sweep.ray_engine import Engine


@dataclass(frozen=True)
class SweepResult:
    """What a sweep could not do."""

    failed: int
    """Trials of this sweep that failed"""
    undecided: list[str]
    """Searches of which no configuration finished"""


def run_sweep(
    searches: list[Search],
    store: Store,
    resources: Resources,
    limits: Limits,
    watcher: SweepWatcher,
) -> SweepResult:
    """Run the trials that the store has not finished.

    Raises UserError, before anything runs, for a model or a data file that is not there, or for a
    cache or a store that cannot be written.
    """
    check_cache()
    store.check_writable()
    with ExitStack() as stack:

        def start() -> "Engine":
            from harness.sweep.ray_engine import Engine  # it takes long to import

            methods = {search.method for search in searches}
            return stack.enter_context(Engine(store, resources, limits, methods))

        return _Sweep(searches, store, start, watcher).run()


class _Sweep:
    """The searches of one sweep, and the keys of the trials that they asked for."""

    def __init__(
        self,
        searches: list[Search],
        store: Store,
        start: Callable[[], "Engine"],
        watcher: SweepWatcher,
    ) -> None:
        """`start`: gives what runs trials; it is called when there is one to run."""
        self.searches, self.store, self.watcher = searches, store, watcher
        self._start = start
        self.keys: set[str] = set()
        self._checked: set[str] = set()
        """Searches of which it is known that their trials can run"""

    @cached_property
    def engine(self) -> "Engine":
        """What runs trials."""
        return self._start()

    def run(self) -> SweepResult:
        """Search, choose, and train the chosen configurations on the final seeds."""
        settled = self._settled()
        for search in self.searches:
            if not all(key(trial) in settled for trial in search.first_trials()):
                self._check(search)
        finals: list[Trial] = []
        undecided = []
        for search, scored in zip(self.searches, self._search(), strict=True):
            # A search without rounds and without a sampler has a single configuration.
            if not scored and (search.rounds or search.sampler):
                undecided.append(search.label)
                continue
            chosen = chosen_of(search, scored, self.store) if scored else search.fixed
            dev = next((dev for values, dev in scored if values == chosen), None)
            self.watcher.chosen(search, chosen, dev)
            finals += search.trials([chosen], "final")
        self._run(finals, "final seeds", set())
        return SweepResult(self._failed(), undecided)

    def _search(self) -> list[Scored]:
        """The configurations of each search with their scores, from all of its rounds.

        The n-th rounds of all searches run together, so that no worker waits for one search.
        """
        scored: list[Scored] = [[] for _ in self.searches]
        for number in range(max((len(search.rounds) for search in self.searches), default=0)):
            self._round(number, scored)
        for index, search in enumerate(self.searches):
            if search.sampler is not None:
                scored[index] = self._sample(search, search.sampler)
        return scored

    def _round(self, number: int, scored: list[Scored]) -> None:
        """Run round `number` of every search that has one, and add its scores to `scored`."""
        # A search without any score has nothing from which its next round could start.
        tried = {
            index: search.configurations(number, scored[index])
            for index, search in enumerate(self.searches)
            if number < len(search.rounds) and (number == 0 or scored[index])
        }
        trials = [
            trial
            for index, values in tried.items()
            for trial in self.searches[index].trials(values, "search")
        ]
        varied = {name for index in tried for name in self.searches[index].rounds[number]}
        title = f"search, round {number + 1}"
        pruned = {index: each for index, each in tried.items() if self.searches[index].pruner}
        self._run(trials, title, varied, lambda: self._pruning(number, pruned) if pruned else None)
        for index, values in tried.items():
            scored[index] += scored_of(self.searches[index], values, self.store)

    def _pruning(self, number: int, tried: Mapping[int, list[Values]]) -> Together:
        """The source of the trials of round `number` with a pruner, for each search of `tried`."""
        from harness.sweep.study import Study  # Optuna takes long to import
        from harness.sweep.suggestions import Suggestions

        sources = []
        for index, values in tried.items():
            search = self.searches[index]
            study = Study(search, self.store, f"round {number + 1}")
            source = Suggestions(search, study, self.store, values)
            source.at_a_time = self.engine.slots
            sources.append(source)
        return Together(sources)

    def _run(
        self,
        trials: list[Trial],
        title: str,
        varied: set[str],
        source: Callable[[], TrialSource | None] = lambda: None,
    ) -> None:
        """Run those trials that the store has not settled. Equal trials run once.

        `source`: gives what decides which of the trials run, and when; None: all of them run.
        """
        # A later round may ask for a configuration that an earlier one has tried.
        by_key = {key(trial): trial for trial in trials}
        self.keys |= by_key.keys()
        settled = self._settled()
        missing = {name: trial for name, trial in by_key.items() if name not in settled}
        stored = len(by_key) - len(missing)
        # Without a trial to run, Ray need not start.
        slots = self.engine.slots if missing else 0
        # Trials of one configuration differ in the label subset, too.
        self.watcher.round(RoundPlan(title, len(missing), stored, slots, varied | {"subset"}))
        if missing:
            wanted = {trial.search for trial in missing.values()}
            for search in self.searches:
                if search.id in wanted:
                    self._check(search)
            self.engine.run_from(source() or Listed(missing), self.watcher)
            self.store.compact()  # many small files are slow to read

    def _check(self, search: Search) -> None:
        """Check that the trials of a search can run, unless that is known."""
        if search.id not in self._checked:
            check_runnable(search.trials([search.fixed], "final")[0])
            self._checked.add(search.id)

    def _sample(self, search: Search, sampler: Sampler) -> Scored:
        """Spend what is left of a sampler's budget.

        The configurations that the store has from this search count towards the budget, and the
        sampler learns from them.
        """
        title, varied = f"search, {sampler.name} on {search.label}", set(search.ranges)
        settled = sum(each.settled for each in tried_of(search, self.store))
        if sampler.configurations is not None and settled >= sampler.configurations:
            self.watcher.round(RoundPlan(title, 0, settled, 0, varied))
            return sampled_of(search, self.store)
        from harness.sweep.study import Study  # Optuna takes long to import
        from harness.sweep.suggestions import Suggestions

        study = Study(search, self.store)
        source = Suggestions(search, study, self.store)
        slots = 0 if source.exhausted else self.engine.slots
        self.watcher.round(RoundPlan(title, source.to_run, source.settled, slots, varied))
        if not source.exhausted:
            self._check(search)
            source.at_a_time = slots
            self.engine.run_from(source, self.watcher)
        tried = [{**search.fixed, **drawn} for drawn in study.finished_params()]
        return scored_of(search, tried, self.store)

    def _settled(self) -> set[str]:
        """The keys of the trials that have finished, or that a search of this sweep has pruned."""
        ours = {search.id for search in self.searches}
        pruned = self.store.read(("search",), pc.field("status") == "pruned").table
        found = {row["key"] for row in pruned.to_pylist() if row["search"] in ours}
        return found | self.store.finished_keys()

    def _failed(self) -> int:
        """The number of trials of this sweep without scores in the store.

        They are planned ones, also those whose record could not be written, and ones of samplers.
        """
        samplers = {search.id for search in self.searches if search.sampler is not None}
        failed = self.store.read(("search", "role"), pc.field("status") == "failed").table
        sampled = {
            row["key"]
            for row in failed.to_pylist()
            if row["search"] in samplers and row["role"] == "search"
        }
        return len(sampled | (self.keys - self._settled()))
