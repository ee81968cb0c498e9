"""A sweep: all searches, round by round, then each chosen configuration on the final seeds.

The store says what is left to do, so an interrupted sweep goes on when the same command is given.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from harness.files import check_cache
from harness.sweep.cost import training_operations
from harness.sweep.limits import Limits
from harness.sweep.resources import Resources
from harness.sweep.scored import Scored, sampled_of, scored_of
from harness.sweep.search import Search, best
from harness.sweep.space import Sampler
from harness.sweep.suggestions import Sampling
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
    finals: set[str]
    """Keys of the final trials"""


def run_sweep(
    searches: list[Search],
    store: Store,
    resources: Resources,
    limits: Limits,
    watcher: SweepWatcher,
    *,
    dashboard: bool,
) -> SweepResult:
    """Run the trials that the store has not finished.

    `dashboard`: whether they are shown in Ray's dashboard.
    Raises UserError, before anything runs, for a model or a data file that is not there, or for a
    cache or a store that cannot be written.
    """
    with _sweep(searches, store, resources, limits, watcher, dashboard=dashboard) as sweep:
        return sweep.run()


def prepare_sweep(
    searches: list[Search],
    store: Store,
    resources: Resources,
    limits: Limits,
    watcher: SweepWatcher,
) -> None:
    """Make what the trials share that the store has not finished, and run none of them.

    These are the trials of the first rounds and, as far as they are known, those of the final
    seeds. Raises UserError as `run_sweep`.
    """
    with _sweep(searches, store, resources, limits, watcher) as sweep:
        sweep.prepare()


@contextmanager
def _sweep(
    searches: list[Search],
    store: Store,
    resources: Resources,
    limits: Limits,
    watcher: SweepWatcher,
    *,
    dashboard: bool = False,
) -> "Iterator[_Sweep]":
    check_cache()
    store.check_writable()
    with ExitStack() as stack:

        def start() -> "Engine":
            from harness.sweep.ray_engine import Engine  # it takes long to import

            methods = {search.method for search in searches}
            announce = watcher.notice if dashboard else None
            return stack.enter_context(Engine(store, resources, limits, methods, announce))

        yield _Sweep(searches, store, start, watcher)


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
        self._check_first()
        finals: list[Trial] = []
        undecided = []
        for search, scored in zip(self.searches, self._search(), strict=True):
            # A search without rounds and without a sampler has a single configuration.
            if not scored and (search.rounds or search.sampler):
                undecided.append(search.label)
                continue
            chosen = best(scored) if scored else search.fixed
            self.watcher.chosen(search, chosen, max((dev for _, dev in scored), default=None))
            finals += search.trials([chosen], "final")
        keys = self._run(finals, "final seeds")
        return SweepResult(self._failed(), undecided, keys)

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
        self._run(trials, f"search, round {number + 1}")
        for index, values in tried.items():
            scored[index] += scored_of(self.searches[index], values, self.store)

    def _run(self, trials: list[Trial], title: str) -> set[str]:
        """Run those trials that the store has not finished, and return the keys of all.

        Equal trials run once.
        """
        # A later round may ask for a configuration that an earlier one has tried.
        by_key = {key(trial): trial for trial in trials}
        self.keys |= by_key.keys()
        finished = self.store.finished_keys()
        missing = {name: trial for name, trial in by_key.items() if name not in finished}
        stored = len(by_key) - len(missing)
        # Without a trial to run, Ray need not start.
        slots = self.engine.slots if missing else 0
        self.watcher.round(RoundPlan(title, len(missing), stored, slots))
        if missing:
            wanted = {trial.search for trial in missing.values()}
            for search in self.searches:
                if search.id in wanted:
                    self._check(search)
            # Long trials first, so that at the end no worker is idle while another has a long one.
            order = sorted(missing, key=lambda name: -training_operations(missing[name].declared))
            self.engine.run({name: missing[name] for name in order}, self.watcher)
            self.store.compact()  # many small files are slow to read
        return set(by_key)

    def prepare(self) -> None:
        """Make what the trials share."""
        self._check_first()
        trials = [trial for search in self.searches for trial in search.known_trials()]
        by_key = {key(trial): trial for trial in trials}
        missing = {name: by_key[name] for name in by_key.keys() - self.store.finished_keys()}
        if missing:
            self.engine.prepare(missing, self.watcher)

    def _check_first(self) -> None:
        """Check every search that the store has not finished, before anything runs."""
        finished = self.store.finished_keys()
        for search in self.searches:
            if not all(key(trial) in finished for trial in search.known_trials()):
                self._check(search)

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
        known = sampled_of(search, self.store)
        budget = max(0, sampler.configurations - len(known))
        title = f"search, {sampler.name} on {search.label}"
        slots = self.engine.slots if budget else 0
        self.watcher.round(RoundPlan(title, budget, len(known), slots))
        if budget:
            self._check(search)
            sampling = Sampling(
                template=Trial(
                    search.method, search.fixed, 0, "search", search.id, search.searched
                ),
                repeats=search.repeats["search"],
                ranges=search.ranges,
                sampler=sampler,
                budget=budget,
                known=[
                    ({name: values[name] for name in search.ranges}, dev) for values, dev in known
                ],
            )
            self.engine.sample(sampling, self.watcher)
        return sampled_of(search, self.store)

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
        return len(sampled | (self.keys - self.store.finished_keys()))
