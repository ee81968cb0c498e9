"""How much of a score's variance comes from the choice of the labels, and how much from the seed."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

Draw = tuple[int, int]
"""(subset, seed) of a trial"""


@dataclass(frozen=True)
class Components:
    """The two standard deviations of a one-way random effects model."""

    between: float
    """Between the subsets of the labels"""
    within: float
    """Within a subset, between seeds"""


def variance_components(values: Sequence[float], draws: Sequence[Draw]) -> Components | None:
    """None for a single subset, and where no subset has two seeds: one component cannot be told from the other.

    Within: the pooled sample variance. Between: the sample variance of the subsets' means, less what seeds add to it
    (within / seeds; for subsets with different numbers of seeds, within times the mean of 1 / seeds), at least 0.
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
    """The sum of squared deviations from the mean. fsum: the order of the trials does not matter."""
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values)


def design(draws: Sequence[Draw]) -> str:
    """How many trials: `5x3` for three seeds on each of five subsets; a plain number for anything else."""
    subsets, seeds = ({draw[axis] for draw in draws} for axis in (0, 1))
    full = len(subsets) > 1 and len(set(draws)) == len(draws) == len(subsets) * len(seeds)
    return f"{len(subsets)}x{len(seeds)}" if full else str(len(draws))
