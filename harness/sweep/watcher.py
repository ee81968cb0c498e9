"""What a sweep says while it runs, and to whom."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from harness.sweep.search import Search
from harness.sweep.space import Values
from harness.trials.trial import Trial


@dataclass(frozen=True)
class RoundPlan:
    """What a round is about to run."""

    title: str
    to_run: int
    """Trials that the store does not have"""
    stored: int
    """Trials that the store has"""
    slots: int
    """Trials that run at a time"""
    varied: set[str]
    """The hyperparameters in which the trials differ"""


class TrialWatcher(Protocol):
    """Hears how the trials go."""

    def started(self, trial: Trial) -> None:
        """A worker has taken the trial."""

    def progressed(self, trial: Trial, report: Mapping[str, Any]) -> None:
        """A `harness.training.progress.Progress`, as a dictionary."""

    def ended(self, trial: Trial, report: Mapping[str, Any]) -> None:
        """`status`, `reason` and `dev`."""


class SweepWatcher(TrialWatcher, Protocol):
    """Hears how a sweep goes."""

    def round(self, plan: RoundPlan) -> None:
        """A round begins."""

    def chosen(self, search: Search, configuration: Values, dev: float | None) -> None:
        """A search has chosen a configuration; `dev` is None when there was only one."""
