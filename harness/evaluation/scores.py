"""The results of a measurement: scores and their uncertainty."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Uncertainty:
    """The uncertainty of the score of one model, by bootstrap over the items of the task."""

    standard_error: float
    low: float
    """Lower end of the 95 % percentile interval"""
    high: float
    """Upper end of the same interval"""


@dataclass(frozen=True)
class Scores:
    """What a scoring function returns for a task."""

    metrics: dict[str, float]
    """Metric -> score, for the metrics that are reported"""
    details: dict[str, float] = field(default_factory=dict)
    """Further figures, named `task/figure`"""
    uncertainty: dict[str, Uncertainty] = field(default_factory=dict)
    """Metric -> its uncertainty, where it is known"""

    def __or__(self, other: "Scores") -> "Scores":
        return Scores(
            self.metrics | other.metrics,
            self.details | other.details,
            self.uncertainty | other.uncertainty,
        )
