"""The smallest difference between two methods that a number of seeds can show."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import fmean, variance

import numpy as np
import pyarrow.compute as pc

from harness.evaluation.suites import suite
from harness.sweeps.spaces.search import Search
from harness.trials.store import Store

POWER, SIGNIFICANCE = 0.8, 0.05
"""Probabilities that the difference is found when it is there, and when it is not"""
TYPICAL = 0.5
"""A standard deviation over seeds where the store has none, in points of Spearman x100.

PromptBERT reports 0.15 and 0.25 (promptbert.md, section 4); small encoders have about 1.
"""
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
    # With s the ratio of the estimated to the true standard deviation, the test finds a shift of d
    # standard errors when a normal value around d is above the critical value times s. That it
    # finds a difference with the wrong sign is left out: one in a million.
    freedom = 2 * (repeats - 1)
    s = np.linspace(0, 6, 1201)[1:]
    logarithms = (freedom - 1) * np.log(s) - freedom * s**2 / 2  # of the density of s
    weights = np.exp(logarithms - logarithms.max())
    weights /= weights.sum()

    def found(shift: float, critical: float) -> float:
        return float(weights @ _above(critical * s - shift))

    critical = _root(lambda value: SIGNIFICANCE / 2 - found(0.0, value))
    return _root(lambda shift: found(shift, critical) - POWER) * std * math.sqrt(2 / repeats)


def _above(values: np.ndarray) -> np.ndarray:
    """The probability that a standard normal value is above each of these."""
    return np.array([math.erfc(value / math.sqrt(2)) / 2 for value in values.tolist()])


def _root(rising: Callable[[float], float]) -> float:
    """The value from 0 to 100 at which a rising function is 0, to nine digits."""
    low, high = 0.0, 100.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if rising(middle) > 0 else (middle, high)
    return low


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
    final = (pc.field("status") == "finished") & (pc.field("role") == "final")
    scores: dict[tuple[str, ...], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in store.read((*_COLUMNS, "role"), final).table.to_pylist():
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
