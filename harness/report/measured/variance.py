"""The parts of the variance of a score that come from the label subset and from the seed."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

Draw = tuple[int, int]
"""(label subset, seed) of a trial"""


@dataclass(frozen=True)
class Components:
    """The two standard deviations of a one-way random effects model."""

    between: float
    """Standard deviation between the label subsets"""
    within: float
    """Standard deviation within a label subset, between seeds"""


def variance_components(values: Sequence[float], draws: Sequence[Draw]) -> Components | None:
    """The components of the variance of the values; None where they cannot be told apart.

    They cannot be told apart for a single label subset, and where no subset has two seeds. Within
    is the pooled sample variance. Between is the sample variance of the means of the subsets, minus
    the share of the seeds in it, and at least 0. That share is within / seeds; for subsets with
    different numbers of seeds, it is within times the mean of 1 / seeds.
    """
    subsets: dict[int, list[float]] = defaultdict(list)
    for value, (subset, _) in zip(values, draws, strict=True):
        subsets[subset].append(value)
    freedom = len(values) - len(subsets)
    if len(subsets) < 2 or not freedom:
        return None
    within = math.fsum(squares(scores) for scores in subsets.values()) / freedom
    means = [math.fsum(scores) / len(scores) for scores in subsets.values()]
    by_seeds = within * math.fsum(1 / len(scores) for scores in subsets.values()) / len(subsets)
    between = squares(means) / (len(subsets) - 1) - by_seeds
    return Components(math.sqrt(max(0.0, between)), math.sqrt(within))


def squares(values: Sequence[float]) -> float:
    """The sum of squared deviations from the mean.

    With fsum the order of the trials does not change it.
    """
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values)


def design(draws: Sequence[Draw]) -> str:
    """The number of trials as text.

    It is `5x3` for three seeds on each of five label subsets, and a plain number for any other
    design.
    """
    subsets, seeds = ({draw[axis] for draw in draws} for axis in (0, 1))
    full = len(subsets) > 1 and len(set(draws)) == len(draws) == len(subsets) * len(seeds)
    return f"{len(subsets)}x{len(seeds)}" if full else str(len(draws))
