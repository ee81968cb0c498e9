"""The smallest difference between two methods that a number of seeds can show."""

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import NormalDist, fmean, variance

from harness.evaluation.suites import suite
from harness.sweeps.spaces.search import Search
from harness.trials.store import Store

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
    few = repeats - 2
    return std * (MULTIPLES[few] if few < len(MULTIPLES) else _many(repeats))


def _many(repeats: int) -> float:
    """The multiple for many repeats, to 0.1 %: that of a normal distribution, corrected."""
    normal = NormalDist()
    sure = normal.inv_cdf(1 - SIGNIFICANCE / 2) + normal.inv_cdf(POWER)
    return sure * math.sqrt(2 / repeats) * (1 + 0.5 / repeats + 0.75 / repeats**2)


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
