"""The results of a measurement: scores, their uncertainty, and what measured them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np  # a wrong name of a paper is answered without it


@dataclass(frozen=True)
class Uncertainty:
    """The uncertainty of the score of one model, by bootstrap over the items of the task."""

    standard_error: float
    low: float
    """Lower end of the 95 % percentile interval"""
    high: float
    """Upper end of the same interval"""


NORMAL = 1.959964
"""Standard errors between the mean of a normal distribution and either end of its 95 % interval"""


def of_mean(mean: float, parts: Sequence[Uncertainty]) -> Uncertainty:
    """The uncertainty of a mean of scores, from the uncertainty of each.

    The scores are over different pairs and count as independent. The interval is a normal one.
    """
    # The variances of independent scores add up.
    error = math.sqrt(sum(part.standard_error**2 for part in parts)) / len(parts)
    half = NORMAL * error
    return Uncertainty(error, mean - half, mean + half)


class Queries(NamedTuple):
    """A figure of each query of a test."""

    figures: "np.ndarray"
    """(queries,) float64, from 0 to 1; the score is their mean x100"""
    numbers: "np.ndarray"
    """(queries,) int64, in rising order: equal ones are the same query of the same documents"""


@dataclass(frozen=True)
class Scores:
    """Result of a scoring function for a task."""

    metrics: dict[str, float]
    """Metric -> score, for the metrics that are reported"""
    details: dict[str, float] = field(default_factory=dict)
    """Further figures, named `task/figure`"""
    uncertainty: dict[str, Uncertainty] = field(default_factory=dict)
    """Metric -> its uncertainty, where it is known"""
    pairs: "dict[str, np.ndarray | Queries]" = field(default_factory=dict)
    """Test of scored pairs -> (2, pairs): the cosine of each pair, and its gold score.

    Or a metric of a retrieval -> the figure of each query."""

    def __or__(self, other: "Scores") -> "Scores":
        return Scores(
            self.metrics | other.metrics,
            self.details | other.details,
            self.uncertainty | other.uncertainty,
            self.pairs | other.pairs,
        )


@dataclass(frozen=True)
class Origin:
    """Source of a measurement of mteb, as its result files name it."""

    revision: str
    """The revision of the data set"""
    languages: Mapping[str, Sequence[str]]
    """Subset of the data set -> its languages"""
    version: str
    """The version of mteb"""
