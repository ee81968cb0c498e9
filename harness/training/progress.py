"""What training did, and how far it is."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypedDict

from torch import Tensor


@dataclass
class Progress:
    """How far a trial is; sent to whoever watches."""

    step: int
    total_steps: int
    loss: float
    dev: float | None
    sentences_per_second: float


class Point(TypedDict):
    """A value along training, as the store keeps it."""

    step: int
    """Updates done in the whole trial"""
    stage: str
    metric: str
    value: float


@dataclass
class Outcome:
    """What training did, apart from changing the method."""

    steps: int = 0
    sentences: int = 0
    seconds: float = 0.0
    """Of training alone; a shared stage counts as if this trial had run it"""
    best_dev: float | None = None
    best_step: int = 0
    trainable_parameters: int = 0
    run_began: int = 0
    """The update after which the present run began: later than 0 only after a stage that was a run of its own"""
    best_state: dict[str, Tensor] = field(default_factory=dict, repr=False)
    history: list[Point] = field(default_factory=list, repr=False)
    """Training loss, dev score and what the method watches, at every evaluation"""

    def remember(self, stage: str, values: Mapping[str, float]) -> None:
        """Values of metrics at the present step, for the history."""
        self.history += [
            Point(step=self.steps, stage=stage, metric=name, value=value)
            for name, value in values.items()
        ]

    def forget_best(self) -> dict[str, Tensor]:
        """The best weights so far; the choice starts anew."""
        best, self.best_state, self.best_dev, self.run_began = self.best_state, {}, None, self.steps
        return best
