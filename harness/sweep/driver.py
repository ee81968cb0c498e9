"""A sweep: all searches, round by round, then each chosen configuration on the final seeds.

The store says what is left to do, so an interrupted sweep goes on when the same command is given.
"""

from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from harness.shared_cache import check_caches
from harness.sweep.axes import Values
from harness.sweep.limits import Limits
from harness.sweep.resources import Resources
from harness.sweep.sampling import Sampler
from harness.sweep.scored import (
    Scored,
    chosen_of,
    sampled_of,
    scored_of,
    tried_of,
)
from harness.sweep.search import Search, implied
from harness.sweep.trial_runs import TrialRuns
from harness.sweep.trial_sources import Rounds, Together, TrialSource
from harness.sweep.watcher import Everyone, RoundPlan, SweepWatcher, TrialWatcher
from harness.trials.store import Store
from harness.trials.trial import key

if TYPE_CHECKING:
    from harness.sweep.ray_engine import Engine

_Result = TypeVar("_Result")
_Running = Generator[TrialSource, None, _Result]
"""Yields trials, goes on when they have ended, and returns a result"""


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
    tracking: TrialWatcher | None = None,
) -> SweepResult:
    """Run the trials that the store has not finished.

    `dashboard`: whether they are shown in Ray's dashboard. `tracking`: hears of them, too.
    Raises UserError, before anything runs, for a model or a data file that is not there, or for a
    cache or a store that cannot be written.
    """
    with _sweep(searches, store, resources, limits, watcher, dashboard=dashboard) as sweep:
        runs, heard = sweep.runs, Everyone(watcher, tracking) if tracking else watcher
        return Rounds(sweep.run()).run(lambda trials: runs.engine.run_from(trials, heard))


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
    check_caches()
    store.check_writable()
    with ExitStack() as stack:

        def start() -> "Engine":
            from harness.sweep.ray_engine import Engine  # it takes long to import

            samples = [each.known_trials()[0] for each in (*implied(searches), *searches)]
            announce = watcher.notice if dashboard else None
            return stack.enter_context(Engine(store, resources, limits, samples, announce))

        yield _Sweep(searches, TrialRuns(store, start, watcher))


class _Sweep:
    """The searches of one sweep: their rounds, what they choose, and the final seeds."""

    def __init__(self, searches: list[Search], runs: TrialRuns) -> None:
        self.searches, self.runs = list(searches), runs
        self.store, self.watcher = runs.store, runs.watcher
        self._undecided: list[str] = []

    def run(self) -> _Running[SweepResult]:
        """Search, choose, and train the chosen configurations on the final seeds."""
        trainers = implied(self.searches)
        self.runs.check_first([*trainers, *self.searches])
        first = [search for search in self.searches if search.starts_from is None]
        known = yield from self._choose([*trainers, *first])
        later = yield from self._choose(self._started(known))
        finals = [
            trial
            for search, chosen in (*known, *later)
            if search in self.searches
            for trial in search.trials([chosen], "final")
        ]
        keys = yield from self.runs.run(self.searches, finals, "final seeds")
        return SweepResult(self.runs.failed(self.searches), self._undecided, keys)

    def _choose(self, searches: list[Search]) -> _Running[list[tuple[Search, Values]]]:
        """Run the rounds of the searches, and say which configuration each has chosen."""
        chosen = []
        found = yield from self._search(searches)
        for search, scored in zip(searches, found, strict=True):
            # A search without rounds and without a sampler has a single configuration.
            if not scored and (search.rounds or search.sampler):
                self._undecided.append(search.label)
                continue
            values = chosen_of(search, scored, self.store) if scored else search.fixed
            dev = next((dev for each, dev in scored if each == values), None)
            self.watcher.chosen(search, values, dev)
            chosen.append((search, values))
        return chosen

    def _started(self, chosen: list[tuple[Search, Values]]) -> list[Search]:
        """The searches whose encoder another search trains, now that it has chosen.

        chosen: searches with the configuration that each has chosen.
        """
        for index, search in enumerate(self.searches):
            if search.starts_from is None:
                continue
            values = next((each for base, each in chosen if base == search.starts_from), None)
            if values is None:
                self._undecided.append(search.label)
                continue
            trial = search.trainer(values)
            self.runs.trainers[key(trial)] = trial
            self.searches[index] = search.started(trial)
        return [each for each in self.searches if each.starts_from and each.ready]

    def _search(self, searches: list[Search]) -> _Running[list[Scored]]:
        """The configurations of each search with their scores, from all of its rounds.

        The n-th rounds of all searches run together, so that no worker waits for one search.
        """
        scored: list[Scored] = [[] for _ in searches]
        for number in range(max((len(search.rounds) for search in searches), default=0)):
            yield from self._round(number, searches, scored)
        for index, search in enumerate(searches):
            if search.sampler is not None:
                scored[index] = yield from self._sample(search, search.sampler)
        return scored

    def _round(self, number: int, searches: list[Search], scored: list[Scored]) -> _Running[None]:
        """Run round `number` of every search that has one, and add its scores to `scored`."""
        # A search without any score has nothing from which its next round could start.
        tried = {
            index: search.configurations(number, scored[index])
            for index, search in enumerate(searches)
            if number < len(search.rounds) and (number == 0 or scored[index])
        }
        trials = [
            trial
            for index, values in tried.items()
            for trial in searches[index].trials(values, "search")
        ]
        part = f"round {number + 1}"
        pruned = [
            (searches[index], values) for index, values in tried.items() if searches[index].pruner
        ]
        source = (lambda: self._pruning(part, pruned)) if pruned else None
        yield from self.runs.run(searches, trials, f"search, {part}", source)
        for index, values in tried.items():
            scored[index] += scored_of(searches[index], values, self.store)

    def _pruning(self, part: str, tried: list[tuple[Search, list[Values]]]) -> Together:
        """The source of the trials of a round with a pruner, for each search its configurations."""
        from harness.sweep.study import Study  # Optuna takes long to import
        from harness.sweep.suggestions import Suggestions

        sources = []
        for search, values in tried:
            source = Suggestions(search, Study(search, self.store, part), self.store, values)
            source.at_a_time = self.runs.engine.slots
            sources.append(source)
        return Together(sources)

    def prepare(self) -> None:
        """Make what the trials share."""
        known = implied(self.searches)
        known += [search for search in self.searches if search.starts_from is None]
        self.runs.check_first(known)
        self.runs.prepare([trial for search in known for trial in search.known_trials()])

    def _sample(self, search: Search, sampler: Sampler) -> _Running[Scored]:
        """Spend what is left of a sampler's budget.

        The configurations that the store has from this search count towards the budget, and the
        sampler learns from them.
        """
        start = search.trials([search.fixed], "search")[0].start
        if start in self.runs.trainers:
            trainer = self.runs.trainers[start]
            yield from self.runs.run(self.searches, [trainer], f"the encoder of {search.label}")
        title = f"search, {sampler.name} on {search.label}"
        settled = sum(each.settled for each in tried_of(search, self.store))
        if sampler.configurations is not None and settled >= sampler.configurations:
            self.watcher.round(RoundPlan(title, 0, settled, 0))
            return sampled_of(search, self.store)
        from harness.sweep.study import Study  # Optuna takes long to import
        from harness.sweep.suggestions import Suggestions

        study = Study(search, self.store)
        source = Suggestions(search, study, self.store)
        slots = 0 if source.exhausted else self.runs.engine.slots
        self.watcher.round(RoundPlan(title, source.to_run, source.settled, slots))
        if not source.exhausted:
            self.runs.check(search)
            source.at_a_time = slots
            yield source
        tried = [{**search.fixed, **drawn} for drawn in study.finished_params()]
        return scored_of(search, tried, self.store)
