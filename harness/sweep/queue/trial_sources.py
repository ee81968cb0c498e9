"""Where the trials of a queue come from."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from harness.errors import UserError
from harness.trials.record import Record
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


def report_of(record: Record) -> dict[str, Any]:
    """The report of a trial that has ended with this record."""
    return {
        "status": record.status,
        "reason": record.reason,
        "dev": record.dev_score,
        "cost": record.training_seconds or 0.0,
        "seconds": record.wall_seconds or 0.0,
        "peak_gpu_memory_mib": record.peak_gpu_memory_mib,
        "device": record.device,
    }


def unstored_report(why: UserError, records: Iterable[Record]) -> dict[str, Any]:
    """The report of a trial whose record cannot be stored, so that the terminal has its scores."""
    scores = [
        ", ".join(f"{name} {value:.2f}" for name, value in {**each.dev, **each.test}.items())
        for each in records
    ]
    reason = "; ".join([str(why), *(f"its scores: {each}" for each in scores)])
    return {"status": "failed", "reason": reason, "dev": None}


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
