"""How likely a published number is under our seeds: the prediction of one more run."""

import math
from dataclasses import dataclass

import numpy as np

from harness.report.measured.groups import Cell
from harness.report.statistics.significance import prediction_interval
from harness.report.statistics.students_t import two_sided


@dataclass(frozen=True)
class Prediction:
    """What our n runs say about one more run, where their scores are normal values.

    The score of one more run, minus the mean of ours, divided by std * sqrt(1 + 1/n), then has
    Student's t distribution with n - 1 degrees of freedom.
    """

    mean: float
    std: float
    """Sample standard deviation (ddof 1) of the runs"""
    n: int
    """At least 2"""

    @property
    def interval(self) -> tuple[float, float]:
        """The two ends between which one more run is with a probability of 95 %."""
        return prediction_interval(self.mean, self.std, self.n)

    def p_value(self, published: float) -> float:
        """The probability that one more run is at least as far from our mean as `published`."""
        if not self.std:
            return float(math.isclose(self.mean, published))
        t = np.array(abs(published - self.mean) / self._spread)
        return float(two_sided(t, np.array(self.n - 1.0)))

    @property
    def _spread(self) -> float:
        return self.std * math.sqrt(1 + 1 / self.n)


def prediction(cell: Cell | None) -> Prediction | None:
    """What the runs of a cell predict; None for a single run, and where nothing is trained."""
    if cell is None or cell.std is None or not cell.trained:
        return None
    return Prediction(cell.mean, cell.std, cell.n)
