"""Where the trials of a queue come from."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from harness.trials.trial import Trial


class Line(Protocol):
    """Trials that are run in their order. Several lines share the workers evenly."""

    @property
    def learns(self) -> bool:
        """Whether its next trial may depend on those before it, and is asked for at the last."""

    def more(self) -> Mapping[str, Trial]:
        """Key -> further trials; nothing when there are none now."""


class TrialSource(Protocol):
    """Where the trials of a queue come from."""

    def lines(self) -> Sequence[Line]:
        """The lines that may have trials now, each as long as its trials have not ended."""

    def progressed(self, key: str, report: Mapping[str, Any]) -> bool:
        """A trial has done more steps; returns whether it is to end now, as pruned.

        `report`: a `harness.training.progress.Progress` as a dictionary.
        """

    def ended(self, key: str, report: Mapping[str, Any]) -> None:
        """A trial has ended.

        `report`: its `status`, `reason` and `dev`, its `seconds`, and its `cost` in training
        seconds.
        """

    @property
    def exhausted(self) -> bool:
        """Whether no further trial will come."""


class Listed:
    """A list of trials that is known from the beginning. It is a line, and a source."""

    learns = False

    def __init__(self, trials: Mapping[str, Trial]) -> None:
        self._trials = trials

    def lines(self) -> Sequence[Line]:
        """One line."""
        return [self]

    def more(self) -> Mapping[str, Trial]:
        """All trials, once."""
        trials, self._trials = self._trials, {}
        return trials

    def progressed(self, key: str, report: Mapping[str, Any]) -> bool:
        """No trial ends before its last step."""
        return False

    def ended(self, key: str, report: Mapping[str, Any]) -> None:
        """Nothing follows from a result."""

    @property
    def exhausted(self) -> bool:
        """Whether the trials have been taken."""
        return not self._trials
