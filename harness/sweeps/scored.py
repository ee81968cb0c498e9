"""Searches in a store: their configurations with dev scores, and what their seeds resolve."""

import json
import logging
import math
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from statistics import NormalDist, fmean, variance

from harness.data.user_modules import names_of_records
from harness.errors import UserError, one_line
from harness.evaluation.suites import suite
from harness.sweeps.spaces.axes import Values
from harness.sweeps.spaces.search import Search, best
from harness.trials.record import Record
from harness.trials.schema import WITHOUT_LARGE
from harness.trials.store import Store
from harness.trials.trial import key

Scored = list[tuple[Values, float]]
"""Configurations, each with the mean of its dev scores"""
COST_MARGIN = 0.5
"""Points on dev (Spearman x100) by which the chosen configuration may
be worse, about a standard deviation over seeds (TYPICAL)"""
KEYS = "trials"
"""Attribute of a configuration in a study: the keys of its trials"""
POWER, SIGNIFICANCE = 0.8, 0.05
"""Probabilities that the difference is found when it is there, and when it is not"""
TYPICAL = 0.5
"""A standard deviation over seeds where the store has none, in points of Spearman x100.

PromptBERT reports 0.15 and 0.25 (promptbert.md, section 4); small encoders have about 1.
"""
MULTIPLES = (5.653, 3.071, 2.381, 2.024, 1.796, 1.632, 1.507, 1.407, 1.325)
"""The difference that 2, 3, ..., 10 repeats resolve, in standard deviations: where the noncentral t
distribution with 2 (repeats - 1) degrees of freedom has POWER beyond the critical value. A plan
does not wait for scipy, which computes it"""
_Kind = tuple[str, str, str]
"""Method, setting and encoder"""
_COLUMNS = ("method", "setting", "encoder", "configuration", "subset", "test")
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

    Of what a sampler has suggested, another search may have finished them. Trials on other data,
    models or code, or under another protocol, have other keys and do not count.
    """
    mine = {"search": [search.id], "role": ["search"], "status": ["finished", "pruned"]}
    shared = {"key": _suggested(search, store), "role": ["search"], "status": ["finished"]}
    ended = {
        record.key: record
        for asked in (mine, shared)
        for record in store.read(WITHOUT_LARGE, asked).records()
    }
    records: dict[str, list[Record]] = defaultdict(list)
    values: dict[str, Values] = {}
    for record in ended.values():
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


def _suggested(search: Search, store: Store) -> list[str]:
    """Keys of the trials that a sampler has asked for, some of which another search may have run.

    They are read as text, because Optuna takes long to import.
    """
    journal, keys = store.studies_folder / search.study_file(), list[str]()
    for line in journal.read_bytes().splitlines() if journal.is_file() else ():
        with suppress(ValueError, TypeError, AttributeError):  # a study that is damaged
            keys += json.loads(line).get("user_attr", {}).get(KEYS, ())
    return keys


def sampled_of(search: Search, store: Store) -> Scored:
    """The configurations that a sampler's search has finished so far.

    A configuration counts when every search seed and label subset of it is in the store.
    """
    finished = [each.values for each in tried_of(search, store) if each.finished]
    return scored_of(search, finished, store)


def spent_seconds(search: Search, store: Store) -> float:
    """Seconds that the trials of a search have run, without its final seeds."""
    rows = store.read(("wall_seconds",), {"search": [search.id], "role": ["search"]}).table
    return sum(seconds or 0.0 for seconds in rows["wall_seconds"].to_pylist())


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


@dataclass(frozen=True)
class Resolution:
    """The smallest difference that the final seeds of a plan resolve."""

    difference: float
    repeats: int
    """Final seeds of a configuration, or its label subsets where it has several"""
    std: float
    """The standard deviation over them"""
    groups: int
    """Groups of trials in the store from which it is; 0: it is TYPICAL"""
    metric: str


def smallest_difference(std: float, repeats: int) -> float:
    """The difference of two means that a two-sided t test at 5 % finds in 80 % of all cases.

    Both means are over `repeats` (at least 2) normal values with the standard deviation `std`.
    """
    few, normal = repeats - 2, NormalDist()
    if few < len(MULTIPLES):
        return std * MULTIPLES[few]
    # Of many repeats, to 0.1 %: the multiple of a normal distribution, corrected.
    sure = normal.inv_cdf(1 - SIGNIFICANCE / 2) + normal.inv_cdf(POWER)
    return std * (sure * math.sqrt(2 / repeats) * (1 + 0.5 / repeats + 0.75 / repeats**2))


def resolution(searches: Iterable[Search], store: Store) -> Resolution | None:
    """The smallest difference that final seeds show; None where each search has a single one.

    Of several searches, the one with the fewest final seeds counts. The standard deviation is
    pooled over the store's final trials of the same methods, settings and encoders.
    """
    trained = [search for search in searches if search.declared.stages]
    repeats = min(map(_repeats, trained), default=1)
    if repeats < 2:
        return None
    card = suite(trained[0].config.suite).card
    metric = card.average or next(iter(card.headings), card.dev or "")
    kinds: set[_Kind] = {(each.name, each.config.setting, each.config.encoder) for each in trained}
    groups = _groups(kinds, metric, store)
    freedom = sum(len(group) - 1 for group in groups)
    std = TYPICAL
    if freedom:
        std = math.sqrt(sum((len(group) - 1) * variance(group) for group in groups) / freedom)
    return Resolution(smallest_difference(std, repeats), repeats, std, len(groups), metric)


def _repeats(search: Search) -> int:
    final = search.repeats["final"]
    several = search.declared.draws_labels and len(final.subsets) > 1
    return len(final.subsets) if several else len(final.seeds)


def _groups(kinds: set[_Kind], metric: str, store: Store) -> list[list[float]]:
    """The scores of comparable final trials; of several label subsets, the means over seeds."""
    final = {"status": ["finished"], "role": ["final"]}
    scores: dict[tuple[str, ...], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in store.read(_COLUMNS, final).table.to_pylist():
        kind, score = (row["method"], row["setting"], row["encoder"]), dict(row["test"]).get(metric)
        if kind in kinds and score is not None:
            subset = row["subset"] or 0
            same = row["configuration"].replace(f'"subset": {subset}', "")
            scores[(*kind, same)][subset].append(score)
    groups = [
        [fmean(values) for values in subsets.values()]
        if len(subsets) > 1
        else next(iter(subsets.values()))
        for subsets in scores.values()
    ]
    return [group for group in groups if len(group) > 1]
