"""The paired bootstrap between two models of one seed each, from the cosines that a store keeps."""

import math
from functools import lru_cache
from pathlib import Path

import numpy as np

from harness.evaluation.catalogue import CARDS
from harness.evaluation.comparison import resampled_scores
from harness.evaluation.kept_pairs import kept_pairs, pairs_file
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
    first, second = scores
    drawn = _drawn(StoreFolders(store).weights_folder, suite, first[0], second[0]).get(metric)
    if drawn is None:
        return math.nan
    one, two = (
        Scored((score,), ((0, 0),), trained=True, resampled=drawn[[at]])
        for at, (_, score) in enumerate(scores)
    )
    found = over_pairs(one, two)
    return found.p_value if found else math.nan


@lru_cache(16)
def _drawn(folder: Path, suite: str, first: str, second: str) -> dict[str, np.ndarray | None]:
    files = [pairs_file(folder / f"{key}.safetensors", suite) for key in (first, second)]
    pairs = [kept_pairs(file) for file in files]
    return resampled_scores(CARDS[suite], pairs) if all(pairs) else {}
