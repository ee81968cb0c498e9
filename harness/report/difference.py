"""The certainty of the difference of two systems: over seeds, over test pairs, and over both.

Over seeds, it is Student's t: paired where both systems have the same seeds, else Welch's. Over
test pairs, it is a bootstrap of the pairs, the same for all models, in which a system's score is
the mean over its seeds. Over both, it is a hierarchical bootstrap: every resample draws the pairs
anew and the seeds anew.

Two corrections make the intervals of the latter as wide as they say (benchmarks/comparison.py).
Seeds are few, and drawn with replacement they vary too little; so the mean over new seeds is drawn
from the t distribution of the seeds' test. And what a seed scores by chance on these very pairs is
in the spread over seeds already; so the bootstrap of the pairs counts only what its seeds share.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from harness.errors import counted
from harness.evaluation.catalogue import CARDS, SuiteCard
from harness.evaluation.kept import PAIRS, ScoredPairs, kept_pairs, resampled_scores, score_of
from harness.report.significance import LEVEL, Samples, quantile, standard_errors, two_sided
from harness.trials.store_folders import StoreFolders

NEAR = 0.01
"""Points by which the score of kept pairs may differ from the stored score"""
DRAWS = 20
"""Draws of seeds for each resample of the pairs"""


@dataclass(frozen=True)
class Scored:
    """The scores of a system in one metric: a value for each of its trials."""

    values: tuple[float, ...]
    draws: tuple[tuple[int, int], ...]
    """(label subset, seed) of each trial"""
    trained: bool
    """Whether the seed matters; else the system is a constant"""
    resampled: np.ndarray | None = None
    """(trials, resamples): their scores in resamples of the test pairs; None: they are not known"""
    items: str = PAIRS
    """The items that are drawn: pairs or queries"""

    @property
    def mean(self) -> float:
        """The mean over the trials."""
        return math.fsum(self.values) / len(self.values)


@dataclass(frozen=True)
class Difference:
    """The difference of two systems, with one kind of uncertainty."""

    value: float
    low: float
    """Lower end of the 95 % interval"""
    high: float
    p_value: float
    """Two-sided, for no difference"""
    basis: str
    """The sentence that says what the uncertainty is of"""

    @property
    def reach(self) -> float:
        """Half the width of the interval: by how much another draw may move the difference."""
        return (self.high - self.low) / 2


def over_seeds(first: Scored, second: Scored) -> Difference | None:
    """The difference with the uncertainty of the seeds; None where no spread is known."""
    spread = _spread(first, second)
    value = first.mean - second.mean
    if spread is None:
        return None
    error, freedom, basis = spread
    reach = float(quantile(freedom)) * error
    equal = 1.0 if value == 0 else 0.0
    p = float(two_sided(np.array(value / error), np.array(freedom))) if error else equal
    return Difference(value, value - reach, value + reach, p, basis)


def over_pairs(first: Scored, second: Scored) -> Difference | None:
    """The difference with the uncertainty of the test pairs; None where these are not known."""
    moved = _moved(first, second)
    if moved is None:
        return None
    several = len(first.values) > 1 or len(second.values) > 1
    basis = f"bootstrap of the test {first.items}{', mean over the seeds' if several else ''}"
    return _of_draws(first.mean - second.mean, moved, basis)


def over_both(first: Scored, second: Scored) -> Difference | None:
    """The hierarchical bootstrap over seeds and test pairs; None where one of them is unknown."""
    spread, moved = _spread(first, second), _moved(first, second)
    if spread is None or moved is None:
        return None
    error, freedom, _ = spread
    n, other = len(first.values), len(second.values)
    if n == other > 1 and not _is_paired(first, second):
        # For few seeds of like spread Welch's degrees are too few, and 2n - 2 are right; where the
        # spreads differ, these are too many.
        freedom = (freedom + 2 * n - 2) / 2
    shared, whole = moved * _shared_part(first, second, moved), DRAWS * len(moved)
    seeds = error * np.random.default_rng(0).standard_t(freedom, whole)
    basis = f"hierarchical bootstrap over seeds and test {first.items}"
    return _of_draws(first.mean - second.mean, np.tile(shared, DRAWS) + seeds, basis)


def _of_draws(value: float, moved: np.ndarray, basis: str) -> Difference:
    """The difference from the deviations of its draws. Equal systems are not told apart."""
    ends = np.percentile(moved, [50 * (1 - LEVEL), 50 * (1 + LEVEL)])
    low, high = (value + float(end) for end in ends)
    # Draws vary around the observed difference, so their distance from it stands for how far a
    # difference is from 0 by chance (Berg-Kirkpatrick, Burkett and Klein 2012, two-sided).
    as_far = int((np.abs(moved) >= abs(value)).sum())
    return Difference(value, low, high, (as_far + 1) / (len(moved) + 1), basis)


def _is_paired(first: Scored, second: Scored) -> bool:
    """Whether both systems were trained on the same seeds and label subsets."""
    several = first.trained and second.trained and len(first.draws) > 1
    return several and sorted(first.draws) == sorted(second.draws)


def _by_draw(scored: Scored, rows: np.ndarray) -> np.ndarray:
    """The rows of the trials in the order of their draws."""
    ordered: np.ndarray = rows[sorted(range(len(rows)), key=lambda at: scored.draws[at])]
    return ordered


def _spread(first: Scored, second: Scored) -> tuple[float, float, str] | None:
    """Standard error of the difference over seeds, degrees of freedom, and how it was found."""
    if _is_paired(first, second):
        one, two = (_by_draw(each, np.asarray(each.values)) for each in (first, second))
        n = len(one)
        draws = "seeds" if len({subset for subset, _ in first.draws}) == 1 else "subsets and seeds"
        error = float(np.std(one - two, ddof=1)) / math.sqrt(n)
        return error, n - 1.0, f"paired t-test, {n} common {draws}"
    errors, degrees = standard_errors(_samples(first), _samples(second))
    error, freedom = float(errors[0]), float(degrees[0])
    n, other = len(first.values), len(second.values)
    # One seed borrows the spread of the other system, which has to have one.
    lone = (first.trained and n == 1) or (second.trained and other == 1)
    if not (first.trained or second.trained) or not (error > 0 or (error == 0 and not lone)):
        return None
    if not (first.trained and second.trained):
        name = f"t-test, {counted(n if first.trained else other, 'seed')} against a constant"
    elif lone:
        name = f"Student's t-test with the spread of one, {n} and {other} seeds"
    else:
        name = f"Welch's t-test, {n} and {other} seeds"
    return error, freedom if error else 1.0, name


def _samples(scored: Scored) -> Samples:
    """The scores of a system as the one row of a column; what trains nothing has no spread."""
    several = len(scored.values) > 1
    std = (np.std(scored.values, ddof=1) if several else np.nan) if scored.trained else 0.0
    return Samples(np.array([scored.mean]), np.array([std]), np.array([len(scored.values)]))


def _moved(first: Scored, second: Scored) -> np.ndarray | None:
    """The deviations of the difference in resamples of the test pairs, (resamples,)."""
    if first.resampled is None or second.resampled is None:
        return None
    one, two = first.resampled.mean(axis=0), second.resampled.mean(axis=0)
    drawn: np.ndarray = one - two
    return None if np.isnan(drawn).any() else drawn - (first.mean - second.mean)


def _shared_part(first: Scored, second: Scored, moved: np.ndarray) -> float:
    """The factor that leaves of the deviations what all seeds of a system share."""
    assert first.resampled is not None
    assert second.resampled is not None
    if _is_paired(first, second):
        one, two = (_by_draw(each, np.asarray(each.resampled)) for each in (first, second))
        own = _chance(one - two)
    else:
        own = sum(_chance(each.resampled) for each in (first, second) if each.trained)
    whole = float(np.var(moved))
    return math.sqrt(max(0.0, 1 - own / whole)) if whole else 0.0


def _chance(resampled: np.ndarray | None) -> float:
    """The variance, in the mean over seeds, of what a single seed scores by chance on the pairs."""
    assert resampled is not None
    n = len(resampled)
    if n < 2:
        return 0.0
    own = resampled - resampled.mean(axis=0)
    return float(np.var(own, axis=1).sum()) / (n - 1) / n


def kept_as_stored(file: Path, stored: Mapping[str, float]) -> ScoredPairs:
    """The pairs that are kept of a trial; none where they do not give the scores of the store.

    They are then of other data or other weights.
    """
    pairs = kept_pairs(file)
    equal = (
        task in stored and abs(score_of(own) - stored[task]) <= NEAR for task, own in pairs.items()
    )
    return pairs if all(equal) else {}


def paired_p_value(
    store: Path | str, suite: str, models: Sequence[tuple[str, Mapping[str, float]]], metric: str
) -> float:
    """The p-value for no difference between two trials of a store in a metric of a suite.

    models: the key of each, and its scores of the suite. NaN where the cosines or queries of one
    are not kept.
    """
    kept = [StoreFolders(store).kept_pairs(key, suite) for key, _ in models]
    if len(kept) < 2 or not all(file.is_file() for file in kept):
        return math.nan
    stored = (tuple(scores.items()) for _, scores in models)
    drawn = _drawn(suite, *zip(kept, stored, strict=True)).get(metric)
    if drawn is None:
        return math.nan
    one, two = (
        Scored((scores[metric],), ((0, 0),), trained=True, resampled=drawn[[at]])
        for at, (_, scores) in enumerate(models)
    )
    difference = over_pairs(one, two)
    return difference.p_value if difference else math.nan


@lru_cache(16)
def _drawn(
    suite: str, *models: tuple[Path, tuple[tuple[str, float], ...]]
) -> dict[str, np.ndarray | None]:
    pairs = [kept_as_stored(file, dict(stored)) for file, stored in models]
    return resampled_scores(CARDS.get(suite, SuiteCard(suite)), pairs) if all(pairs) else {}
