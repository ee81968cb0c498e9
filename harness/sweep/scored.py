"""The configurations of a search that the store has finished, with their mean dev scores."""

from collections import defaultdict
from collections.abc import Collection, Iterable

import pyarrow.compute as pc

from harness.sweep.axes import Values
from harness.sweep.search import Search
from harness.trials.record import WITHOUT_LARGE, Record
from harness.trials.store import Store
from harness.trials.trial import key

Scored = list[tuple[Values, float]]
"""Configurations, each with the mean of its dev scores"""
_FINISHED = pc.field("status") == "finished"


def finished_score(record: Record) -> float | None:
    """The dev score of a finished record, None for a failed one."""
    return record.dev_score if record.finished else None


def scored_of(search: Search, configurations: list[Values], store: Store) -> Scored:
    """The configurations whose search trials have all finished, with their mean dev scores.

    The mean is over the search seeds and label subsets.
    """
    keys = [
        [key(trial) for trial in search.trials([values], "search")] for values in configurations
    ]
    asked = pc.field("key").isin([name for names in keys for name in names])
    rows = store.read(("selected_by", "dev"), asked & _FINISHED).table.to_pylist()
    scores = {row["key"]: dict(row["dev"] or ()).get(row["selected_by"]) for row in rows}
    scored: Scored = []
    for values, names in zip(configurations, keys, strict=True):
        known = [score for name in names if (score := scores.get(name)) is not None]
        if len(known) == len(names):
            scored.append((values, sum(known) / len(known)))
    return scored


def sampled_of(search: Search, store: Store) -> Scored:
    """The configurations that a sampler's search has finished so far.

    A configuration counts when every search seed and label subset of it is in the store.
    """
    scores: dict[str, list[float]] = defaultdict(list)
    values: dict[str, Values] = {}
    ours = (pc.field("search") == search.id) & (pc.field("role") == "search")
    for record in store.read(WITHOUT_LARGE, ours & _FINISHED).records():
        score = finished_score(record)
        if score is None:
            continue
        tried = {name: value for name, value in record.configuration.items() if name != "subset"}
        # Each label subset is a trial of its own, but not a configuration of its own.
        values[repr(tried)] = tried
        scores[repr(tried)].append(score)
    # In a fixed order, because of equal scores the first configuration is chosen.
    complete = [
        name
        for name in sorted(scores)
        if len(scores[name]) == len(search.trials([values[name]], "search"))
    ]
    return [(values[name], sum(scores[name]) / len(scores[name])) for name in complete]


def failed_trials(searches: Iterable[Search], planned: Collection[str], store: Store) -> int:
    """The number of trials of a sweep without scores in the store.

    They are planned ones (their keys), also those whose record could not be written, and ones of
    samplers.
    """
    samplers = {search.id for search in searches if search.sampler is not None}
    failed = store.read(("search", "role"), pc.field("status") == "failed").table
    sampled = {
        row["key"]
        for row in failed.to_pylist()
        if row["search"] in samplers and row["role"] == "search"
    }
    return len(sampled | (set(planned) - store.finished_keys()))
