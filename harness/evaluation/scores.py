"""What a measurement gives: scores and their uncertainty."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Uncertainty:
    """The uncertainty of one model's score, by bootstrap over the items of the test."""

    standard_error: float
    low: float
    """Lower end of the 95 % percentile interval"""
    high: float


@dataclass(frozen=True)
class Scores:
    """What a task's scoring function found."""

    metrics: dict[str, float]
    """The figures that are reported"""
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
