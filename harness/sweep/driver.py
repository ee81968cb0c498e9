"""A sweep: searches, round by round, then the chosen configurations on the final seeds. The store says what is left."""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any, Protocol

from harness.device import device
from harness.plugin.kit import Kit
from harness.sweep.ray_engine import Engine, Resources, Sampling, Watcher
from harness.sweep.search import Search, best
from harness.sweep.space import Sampler, Values
from harness.sweep.worker import score
from harness.trials.store import Store
from harness.trials.trial import Trial, key

Scored = list[tuple[Values, float]]


class SweepWatcher(Watcher, Protocol):
    """Who is told how the sweep goes."""

    def round(self, title: str, trials: int, stored: int, slots: int, varied: set[str]) -> None:
        """A round begins: `trials` are to run, `slots` at a time, `stored` are already there; `varied` are the
        hyperparameters in which they differ."""

    def chosen(self, search: Search, configuration: Values, dev: float | None) -> None:
        """A search has settled on a configuration; dev is None when there was nothing to choose from."""


@dataclass(frozen=True)
class Result:
    """What a sweep came to."""

    failed: int
    """Trials of this sweep that failed"""
    undecided: list[str]
    """Searches of which no configuration finished"""


def run(
    searches: list[Search], store: Store, resources: Resources, watcher: SweepWatcher
) -> Result:
    """Run what the store does not have. Interrupted at any point, the same call goes on from there.

    Raises UserError, before anything runs, for a model or data file that is not there or a store that cannot be
    written.
    """
    store.check_writable()
    for search in searches:
        _prepare(search)
    with Engine(store, resources) as engine:
        return _Sweep(searches, engine, watcher).run()


def _prepare(search: Search) -> None:
    """Fail early, and build what the trials share: their models and files are here, their corpora tokenised."""
    trial = search.trials([search.fixed], "final")[0]
    key(trial)
    Kit(trial.declared, device()).build_shared()


class _Sweep:
    """The searches of one call, and the keys of what they asked for."""

    def __init__(self, searches: list[Search], engine: Engine, watcher: SweepWatcher) -> None:
        self.searches, self.engine, self.watcher = searches, engine, watcher
        self.store = engine.store
        self.keys: set[str] = set()

    def run(self) -> Result:
        """Search, choose, retrain on the final seeds."""
        finals: list[Trial] = []
        undecided = []
        for search, scored in zip(self.searches, self._search(), strict=True):
            if not scored and (search.rounds or search.sampler):
                undecided.append(search.label)
                continue
            chosen = best(scored) if scored else search.fixed
            self.watcher.chosen(search, chosen, max((dev for _, dev in scored), default=None))
            finals += search.trials([chosen], "final")
        self._run(finals, "final seeds", set())
        return Result(self._failed(), undecided)

    def _search(self) -> list[Scored]:
        """All rounds; the n-th rounds of all searches run together. One list of (configuration, mean dev) each."""
        scored: list[Scored] = [[] for _ in self.searches]
        for number in range(max((len(search.rounds) for search in self.searches), default=0)):
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
            self._run(trials, f"search, round {number + 1}", varied)
            for index, values in tried.items():
                scored[index] += scores(self.searches[index], values, self.store)
        for index, search in enumerate(self.searches):
            if search.sampler is not None:
                scored[index] = self._sample(search, search.sampler)
        return scored

    def _run(self, trials: list[Trial], title: str, varied: set[str]) -> None:
        """Run those trials that the store has not finished, each once."""
        by_key = {key(trial): trial for trial in trials}
        self.keys |= by_key.keys()
        finished = self.store.keys()
        missing = [trial for found, trial in by_key.items() if found not in finished]
        self.watcher.round(
            title, len(missing), len(by_key) - len(missing), self.engine.slots, varied | {"subset"}
        )
        if missing:
            self.engine.run(missing, self.watcher)
            self.store.compact()

    def _sample(self, search: Search, sampler: Sampler) -> Scored:
        """Spend the rest of a sampler's budget; what the store has of this search counts and is told to the sampler."""
        known = sampled(search, self.store)
        budget = max(0, sampler.trials - len(known))
        title = f"search, {sampler.name} on {search.label}"
        self.watcher.round(title, budget, len(known), self.engine.slots, set(search.ranges))
        if budget:
            template = Trial(search.method, search.fixed, 0, "search", search.id)
            points = [
                ({name: values[name] for name in search.ranges}, dev) for values, dev in known
            ]
            self.engine.sample(
                Sampling(
                    template, search.repeats["search"], search.ranges, sampler, budget, points
                ),
                self.watcher,
            )
        return sampled(search, self.store)

    def _failed(self) -> int:
        """Failed trials among those asked for, and among the samplers' suggestions."""
        samplers = {search.id for search in self.searches if search.sampler is not None}
        return sum(
            row["status"] == "failed"
            and (row["key"] in self.keys or (row["search"] in samplers and row["role"] == "search"))
            for row in self.store.read().rows()
        )


def scores(search: Search, configurations: list[Values], store: Store) -> Scored:
    """The mean dev score over the search seeds and subsets of every configuration of which all have finished."""
    records = {record["key"]: record for record in store.read().rows()}
    scored: Scored = []
    for values in configurations:
        found = [records.get(key(trial)) for trial in search.trials([values], "search")]
        numbers = [
            number
            for record in found
            if record is not None and (number := score(record)) is not None
        ]
        if len(numbers) == len(found):
            scored.append((values, sum(numbers) / len(numbers)))
    return scored


def sampled(search: Search, store: Store) -> Scored:
    """What a sampler's search has finished so far: configurations of which every search seed and subset is in the
    store."""
    found: dict[str, list[Any]] = defaultdict(list)
    values: dict[str, Values] = {}
    for row in store.read().rows():
        if row["search"] == search.id and row["role"] == "search" and row["status"] == "finished":
            tried = {
                name: value for name, value in row["configuration"].items() if name != "subset"
            }
            values[repr(tried)] = tried
            found[repr(tried)].append(score(row))
    complete = [
        name
        for name in sorted(found)
        if len(found[name]) == len(search.trials([values[name]], "search"))
    ]
    return [(values[name], sum(found[name]) / len(found[name])) for name in complete]
