"""A sweep: each search with its rounds or its sampler, its choice, and its final seeds.

The searches go on side by side (`harness.sweep.searching.courses`). The store says what is left to
do, so an interrupted sweep goes on when the same command is given.
"""

from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from harness.shared_cache import check_caches
from harness.sweep.queue.trial_sources import TrialSource
from harness.sweep.screen.watcher import Everyone, RoundPlan, SweepWatcher, TrialWatcher
from harness.sweep.searching.courses import Courses, Phase
from harness.sweep.searching.scored import (
    Scored,
    chosen_of,
    sampled_of,
    scored_of,
    tried_of,
)
from harness.sweep.spaces.axes import Values
from harness.sweep.spaces.sampling import Sampler
from harness.sweep.spaces.search import Search, implied
from harness.sweep.trial_runs import TrialRuns
from harness.sweep.workers.resources import Limits, Resources
from harness.trials.store import Store
from harness.trials.trial import key

if TYPE_CHECKING:
    from harness.sweep.cluster.ray_engine import Engine
    from harness.sweep.searching.suggestions import Suggestions

_Searching = Generator[Phase, None, Scored]
"""Yields phases, goes on when their trials have ended, and returns configurations with scores"""


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
        return sweep.run(Everyone(watcher, tracking) if tracking else watcher)


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
            from harness.sweep.cluster.ray_engine import Engine  # it takes long to import

            samples = [each.known_trials()[0] for each in (*implied(searches), *searches)]
            announce = watcher.notice if dashboard else None
            return stack.enter_context(Engine(store, resources, limits, samples, announce))

        yield _Sweep(searches, TrialRuns(store, start, watcher))


class _Sweep:
    """The searches of one sweep: their courses, what they choose, and the final seeds."""

    def __init__(self, searches: list[Search], runs: TrialRuns) -> None:
        self.searches, self.runs = list(searches), runs
        self.store, self.watcher = runs.store, runs.watcher
        self.courses = Courses(runs.begin, runs.watcher.underway)
        self._undecided: list[str] = []
        self._finals: set[str] = set()

    def run(self, heard: TrialWatcher) -> SweepResult:
        """Search, choose, and train the chosen configurations on the final seeds.

        `heard`: hears of the trials.
        """
        known = [*implied(self.searches), *self.searches]
        self.runs.check_first(known)
        for search in known:
            if search.starts_from is None:
                self.courses.add(self._course(search))
        if not known:  # a published table that lacks nothing
            self.watcher.round(RoundPlan("final seeds", to_run=0, stored=0, slots=0))
        self.courses.run(lambda source: self._run(source, heard))
        return SweepResult(self.runs.failed(self.searches), self._undecided, self._finals)

    def _run(self, source: TrialSource, heard: TrialWatcher) -> None:
        self.runs.engine.run_from(source, heard)
        self.store.compact()  # many small files are slow to read

    def prepare(self) -> None:
        """Make what the trials share."""
        known = implied(self.searches)
        known += [search for search in self.searches if search.starts_from is None]
        self.runs.check_first(known)
        self.runs.prepare([trial for search in known for trial in search.known_trials()])

    # The course of a search

    def _course(self, search: Search) -> Iterator[Phase]:
        """Search, choose and train on the final seeds; the searches that wait for it begin."""
        scored = yield from self._searched(search)
        later = [each for each in self.searches if each.starts_from == search]
        # A search without rounds and without a sampler has a single configuration.
        if not scored and (search.rounds or search.sampler):
            self._undecided += [each.label for each in (search, *later)]
            return
        values = chosen_of(search, scored, self.store) if scored else search.fixed
        dev = next((dev for each, dev in scored if each == values), None)
        self.watcher.chosen(search, values, dev)
        finals = search.trials([values], "final")
        for each in later:
            self.courses.add(self._started(each, search, values))
        if search not in self.searches:  # it trains an encoder for others, and nothing else
            finals = finals[:1]
        else:
            self._finals |= {key(replace(trial)) for trial in finals}
        yield Phase("final seeds", search, finals)

    def _started(self, search: Search, base: Search, chosen: Values) -> Iterator[Phase]:
        """The course of a search whose encoder a final trial of another one trains."""
        trainer = search.trainer(chosen)
        started = search.started(trainer)
        self.searches[self.searches.index(search)] = started
        yield Phase("", base, [trainer])
        yield from self._course(started)

    def _searched(self, search: Search) -> _Searching:
        """The configurations of a search with their scores, from all of its rounds."""
        if search.sampler is not None:
            return (yield from self._sampled(search, search.sampler))
        scored: Scored = []
        for number in range(len(search.rounds)):
            # Without any score there is nothing from which the next round could start.
            if scored or not number:
                scored += yield from self._round(search, number, scored)
        return scored

    def _round(self, search: Search, number: int, scored: Scored) -> _Searching:
        """The configurations of one round with their scores. `scored`: those before."""
        values, name = search.configurations(number, scored), f"round {number + 1}"

        def pruning() -> "Suggestions":
            from harness.sweep.searching.study import Study  # Optuna takes long to import
            from harness.sweep.searching.suggestions import Suggestions

            return Suggestions(search, Study(search, self.store, name), self.store, values)

        source = pruning if search.pruner else None
        yield Phase(f"search, {name}", search, search.trials(values, "search"), source)
        return scored_of(search, values, self.store)

    def _sampled(self, search: Search, sampler: Sampler) -> _Searching:
        """Spend what is left of a sampler's budget.

        The configurations that the store has from this search count towards the budget, and the
        sampler learns from them.
        """
        title = f"search, {sampler.name} on {search.label}"
        settled = [each.values for each in tried_of(search, self.store) if each.settled]
        if sampler.configurations is not None and len(settled) >= sampler.configurations:
            yield Phase(title, search, search.trials(settled, "search"))
            return sampled_of(search, self.store)
        from harness.sweep.searching.study import Study  # Optuna takes long to import
        from harness.sweep.searching.suggestions import Suggestions

        study = Study(search, self.store)
        yield Phase(title, search, [], lambda: Suggestions(search, study, self.store))
        tried = [{**search.fixed, **drawn} for drawn in study.finished_params()]
        return scored_of(search, tried, self.store)
