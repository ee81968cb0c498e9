"""Progress and outcome of a training."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from typing_extensions import TypedDict

if TYPE_CHECKING:  # what shows the progress of trials computes nothing
    from torch import Tensor

GRADIENT_NORM = "gradient_norm"
"""The metric with the joint norm of the gradients of all trained parameters, before clipping"""


class Point(TypedDict):
    """A value along training, in the form in which the store keeps it."""

    step: int
    """Steps done in the whole trial"""
    stage: str
    metric: str
    """`loss`, `dev`, a name that the method gave, or one of harness.training.steps"""
    value: float


@dataclass
class Progress:
    """Progress of a trial."""

    step: int
    """Steps done in the whole trial"""
    total_steps: int
    loss: float
    """The loss of the last step"""
    dev: float | None
    """The score on dev after the last step; None: it was not scored then"""
    sentences_per_second: float
    """Mean over the training so far"""
    evaluation: int | None = None
    """The number of this evaluation on dev in the last stage, from 1; None: it was not one"""
    best_dev: float | None = None
    """The best score on dev so far: what the trial would have if it ended now"""
    points: list[Point] = field(default_factory=list, repr=False)
    """New points of the history since the last report, in the order of the steps"""


@dataclass
class Outcome:
    """Outcome of a training, apart from the changed method."""

    steps: int = 0
    sentences: int = 0
    """Rows of the streams' batches: a triplet counts as three, and dropout views do not count"""
    seconds: float = 0.0
    """Seconds of training alone; a shared stage counts as if this trial had run it"""
    best_dev: float | None = None
    best_step: int = 0
    """The step after which dev was best"""
    trainable_parameters: int = 0
    """The number of parameters that train in the stage with the most of them"""
    run_began: int = 0
    """The step after which the present run began.

    It is 0, unless an earlier stage was a run of its own."""
    best_state: "dict[str, Tensor]" = field(default_factory=dict, repr=False)
    """Changed state as it was at `best_step`"""
    pruned: bool = False
    """Whether the search ended the training before its last step"""
    history: list[Point] = field(default_factory=list, repr=False)
    """Training loss, dev score and what the method watches, at every evaluation"""
    curves: list[Point] = field(default_factory=list, repr=False)
    """Loss terms, learning rates and gradient norms at some steps (harness.training.steps)"""

    def remember(self, stage: str, values: Mapping[str, float]) -> None:
        """Put values of metrics at the present step into the history."""
        self.history += [
            Point(step=self.steps, stage=stage, metric=name, value=value)
            for name, value in values.items()
        ]

    def all_points(self) -> list[Point]:
        """`history` and `curves` in the order of their steps."""
        return sorted([*self.curves, *self.history], key=lambda point: point["step"])

    def evaluations(self, stage: str) -> int:
        """The number of evaluations on dev in a stage so far."""
        return sum(each["stage"] == stage and each["metric"] == "dev" for each in self.history)

    def forget_best(self) -> "dict[str, Tensor]":
        """Return the best weights so far, and start the choice anew with the next step."""
        best, self.best_state, self.best_dev, self.run_began = self.best_state, {}, None, self.steps
        return best
