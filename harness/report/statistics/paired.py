"""The paired bootstrap between two models of one seed each, from the cosines that a store keeps."""

import math
from functools import lru_cache
from pathlib import Path

import numpy as np

from harness.evaluation.catalogue import CARDS
from harness.evaluation.kept import kept_pairs, resampled_scores
from harness.report.statistics.difference import Scored, over_pairs
from harness.trials.store_folders import StoreFolders


def paired_p_value(
    store: Path | str, suite: str, scores: tuple[tuple[str, float], tuple[str, float]], metric: str
) -> float:
    """The p-value for no difference between two trials of a store in a metric of a suite.

    scores: the key and the score of each. NaN where the cosines of one are not kept.
    """
    if suite not in CARDS:
        return math.nan
    kept = [StoreFolders(store).kept_pairs(key, suite) for key, _ in scores]
    if not all(file.is_file() for file in kept):
        return math.nan
    drawn = _drawn(suite, *kept).get(metric)
    if drawn is None:
        return math.nan
    one, two = (
        Scored((score,), ((0, 0),), trained=True, resampled=drawn[[at]])
        for at, (_, score) in enumerate(scores)
    )
    found = over_pairs(one, two)
    return found.p_value if found else math.nan


@lru_cache(16)
def _drawn(suite: str, first: Path, second: Path) -> dict[str, np.ndarray | None]:
    pairs = [kept_pairs(first), kept_pairs(second)]
    return resampled_scores(CARDS[suite], pairs) if all(pairs) else {}
