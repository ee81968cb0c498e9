"""A sweep: searches, round by round, then the chosen configurations on the final seeds. The store says what is left."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, Protocol

from harness.engine import Engine, Resources, Sampling, Watcher
from harness.kit import Kit
from harness.search import Search, best
from harness.space import Values
from harness.store import Store
from harness.training.reproducibility import device
from harness.trial import Trial, key
from harness.worker import score

Scored = list[tuple[Values, float]]


class SweepWatcher(Watcher, Protocol):
    """Who is told how the sweep goes."""

    def round(self, title: str, trials: int, stored: int, slots: int, varied: set[str]) -> None:
        """A round begins: `trials` are to run, `slots` at a time, `stored` are already there; `varied` are the
        hyperparameters in which they differ."""

    def chosen(self, search: Search, configuration: Values, dev: float | None) -> None:
        """A search has settled on a configuration; dev is None when there was nothing to choose from."""


@dataclass
class Result:
    """What a sweep came to."""

    chosen: dict[str, Values] = field(default_factory=dict)
    """Search label -> configuration"""
    finished: int = 0
    failed: int = 0
    undecided: list[str] = field(default_factory=list)
    """Searches of which no configuration finished"""


def run(searches: list[Search], store: Store, resources: Resources, watcher: SweepWatcher) -> Result:
    """Run what the store does not have. Interrupted at any point, the same call goes on from there.

    Raises UserError, before anything runs, for a model or data file that is not there or a store that cannot be
    written.
    """
    store.check_writable()
    for search in searches:
        _prepare(search)
    result = Result()
    with Engine(store, resources) as engine:
        keys: set[str] = set()
        scored = _search(searches, engine, watcher, keys)
        finals: list[Trial] = []
        for number, search in enumerate(searches):
            if not scored[number] and (search.rounds or search.sampler):
                result.undecided.append(search.label)
                continue
            values = best(scored[number]) if scored[number] else search.fixed
            dev = max(found for _, found in scored[number]) if scored[number] else None
            result.chosen[search.label] = values
            watcher.chosen(search, values, dev)
            finals += search.trials([values], "final")
        _run(finals, "final seeds", set(), engine, watcher)
    keys |= {key(trial) for trial in finals}
    _count({search.id for search in searches if search.sampler is not None}, keys, store, result)
    return result


def _prepare(search: Search) -> None:
    """Fail early, and build what the trials share: their models and files are here, their corpora tokenised."""
    for trial in search.trials([search.fixed], "final")[:1]:
        key(trial)
        Kit(trial.plugin, trial.config, device()).build_shared()


def _search(searches: list[Search], engine: Engine, watcher: SweepWatcher, keys: set[str]) -> list[Scored]:
    """All rounds; the n-th rounds of all searches run together. One list of (configuration, mean dev) per search.

    `keys` gets the keys of the rounds' trials.
    """
    scored: list[Scored] = [[] for _ in searches]
    for number in range(max((len(search.rounds) for search in searches), default=0)):
        tried = {
            index: search.configurations(number, scored[index])
            for index, search in enumerate(searches)
            if number < len(search.rounds) and (number == 0 or scored[index])
        }
        trials = [trial for index, values in tried.items() for trial in searches[index].trials(values, "search")]
        keys |= {key(trial) for trial in trials}
        varied = {name for index in tried for name in searches[index].rounds[number]}
        _run(trials, f"search, round {number + 1}", varied, engine, watcher)
        for index, values in tried.items():
            scored[index] += scores(searches[index], values, engine.store)
    for index, search in enumerate(searches):
        if search.sampler is not None:
            scored[index] = _sample(search, engine, watcher)
    return scored


def _run(trials: list[Trial], title: str, varied: set[str], engine: Engine, watcher: SweepWatcher) -> None:
    """Run those trials that the store has not finished, each once."""
    done = engine.store.keys()
    missing = list({key(trial): trial for trial in trials if key(trial) not in done}.values())
    watcher.round(title, len(missing), len(trials) - len(missing), engine.slots, varied)
    if missing:
        engine.run(missing, watcher)
        engine.store.compact()


def scores(search: Search, configurations: list[Values], store: Store) -> Scored:
    """The mean dev score over the search seeds of every configuration of which all seeds finished."""
    records = {record["key"]: record for record in store.read().rows()}
    scored: Scored = []
    for values in configurations:
        found = [records.get(key(trial)) for trial in search.trials([values], "search")]
        numbers = [number for record in found if record is not None and (number := score(record)) is not None]
        if len(numbers) == len(found):
            scored.append((values, sum(numbers) / len(numbers)))
    return scored


def _sample(search: Search, engine: Engine, watcher: SweepWatcher) -> Scored:
    """Spend the rest of a sampler's budget; what the store has of this search counts and is told to the sampler."""
    assert search.sampler is not None
    known = sampled(search, engine.store)
    budget = search.sampler.trials - len(known)
    title = f"search, {search.sampler.name} on {search.label}"
    watcher.round(title, max(0, budget), len(known), engine.slots, set(search.ranges))
    if budget > 0:
        template = search.trials([search.fixed], "search")[0]
        suggested = [({name: values[name] for name in search.ranges}, dev) for values, dev in known]
        engine.sample(
            Sampling(
                template, search.ranges, search.sampler.name, search.sampler.seed, search.seeds, budget, suggested
            ),
            watcher,
        )
    return sampled(search, engine.store)


def sampled(search: Search, store: Store) -> Scored:
    """What a sampler's search has finished so far: configurations of which every search seed is in the store."""
    found: dict[str, list[Any]] = defaultdict(list)
    values: dict[str, Values] = {}
    for row in store.read().rows():
        if row["search"] == search.id and row["role"] == "search" and row["status"] == "finished":
            name = repr(row["configuration"])
            values[name] = row["configuration"]
            found[name].append(score(row))
    complete = {name: scores for name, scores in found.items() if len(scores) == len(search.seeds)}
    return [(values[name], sum(scores) / len(scores)) for name, scores in sorted(complete.items())]


def _count(sampled_by: set[str], keys: set[str], store: Store, result: Result) -> None:
    """Finished and failed trials among these keys, and of these samplers' searches."""
    for row in store.read().rows():
        if row["key"] in keys or (row["search"] in sampled_by and row["role"] == "search"):
            result.finished += row["status"] == "finished"
            result.failed += row["status"] == "failed"
