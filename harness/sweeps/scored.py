"""The configurations of a search that the store has, with their mean dev scores."""

import logging
from collections import defaultdict
from dataclasses import dataclass
from statistics import fmean

from harness.data.user_modules import names_of_records
from harness.errors import UserError, one_line
from harness.sweeps.spaces.axes import Values
from harness.sweeps.spaces.search import Search, best
from harness.trials.record import WITHOUT_LARGE, Record
from harness.trials.store import Store
from harness.trials.trial import key

Scored = list[tuple[Values, float]]
"""Configurations, each with the mean of its dev scores"""
COST_MARGIN = 0.5
"""Points on dev (Spearman x100) by which the chosen configuration may
be worse, about a standard deviation over seeds (`TYPICAL` in `resolution.py`)"""
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Tried:
    """A configuration of which the store has at least one trial of a search."""

    values: Values
    records: list[Record]
    finished: bool
    """Whether every search seed and label subset of it has finished"""

    @property
    def is_complete(self) -> bool:
        """Whether nothing of it is left to run: it has finished, or its search has pruned it."""
        return self.finished or any(record.status == "pruned" for record in self.records)


def scored_of(search: Search, configurations: list[Values], store: Store) -> Scored:
    """The configurations whose search trials have all finished, with their mean dev scores.

    The mean is over the search seeds and label subsets.
    """
    return [(values, dev) for values, dev, _ in _means(search, configurations, store)]


def chosen_of(search: Search, scored: Scored, store: Store) -> Values:
    """The configuration with the highest dev score; of equal ones, the first.

    Where cost selects, too, it is the cheapest of those at most COST_MARGIN below the highest, and
    of equal ones the best. Nothing has a higher score at a lower cost, so it is on the front.
    """
    highest = max(dev for _, dev in scored)
    if not search.by_cost:
        return best(scored)
    near = [values for values, dev in scored if dev >= highest - COST_MARGIN]
    return min(_means(search, near, store), key=lambda found: (found[2], -found[1]))[0]


def tried_of(search: Search, store: Store) -> list[Tried]:
    """The configurations of which the store has finished or pruned trials of this search.

    Trials on other data, models or code, or under another protocol, have other keys and do not
    count.
    """
    ended = {"search": [search.id], "role": ["search"], "status": ["finished", "pruned"]}
    records: dict[str, list[Record]] = defaultdict(list)
    values: dict[str, Values] = {}
    for record in store.read(WITHOUT_LARGE, ended).records():
        tried = {name: value for name, value in record.configuration.items() if name != "subset"}
        # Each label subset is a trial of its own, but not a configuration of its own.
        values[repr(tried)] = tried
        records[repr(tried)].append(record)
    configurations = []
    # In a fixed order, because of equal scores the first configuration is chosen.
    for name in sorted(records):
        try:
            with names_of_records():
                keys = {key(trial) for trial in search.trials([values[name]], "search")}
        except UserError as error:
            shown = ", ".join(record.key[:10] for record in records[name])
            _logger.warning("stored trials do not count (%s): %s", shown, one_line(str(error)))
            continue
        own = [record for record in records[name] if record.key in keys]
        if own:
            complete = sum(record.finished for record in own) == len(keys)
            configurations.append(Tried(values[name], own, complete))
    return configurations


def sampled_of(search: Search, store: Store) -> Scored:
    """The configurations that a sampler's search has finished so far.

    A configuration counts when every search seed and label subset of it is in the store.
    """
    finished = [each.values for each in tried_of(search, store) if each.finished]
    return scored_of(search, finished, store)


def _means(
    search: Search, configurations: list[Values], store: Store
) -> list[tuple[Values, float, float]]:
    """The finished ones of these configurations, with mean dev score and mean training seconds."""
    keys = [
        [key(trial) for trial in search.trials([values], "search")] for values in configurations
    ]
    asked = {"key": [name for names in keys for name in names], "status": ["finished"]}
    columns = ("selected_by", "dev", "training_seconds")
    rows = store.read(columns, asked).table.to_pylist()
    by_key = {
        row["key"]: (dict(row["dev"] or ()).get(row["selected_by"]), row["training_seconds"] or 0.0)
        for row in rows
    }
    means = []
    for values, names in zip(configurations, keys, strict=True):
        ended = [by_key[name] for name in names if name in by_key]
        scores = [dev for dev, _ in ended if dev is not None]
        if len(scores) == len(names):
            means.append((values, sum(scores) / len(scores), fmean(cost for _, cost in ended)))
    return means
