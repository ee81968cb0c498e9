"""The events of a running sweep, and the interface of the objects that are informed of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from harness.sweeps.spaces.axes import Values
from harness.sweeps.spaces.search import Search
from harness.trials.trial import Trial


@dataclass(frozen=True)
class RoundPlan:
    """What a round of some searches, a sampler, or the final seeds are going to run."""

    title: str
    to_run: int | None
    """Number of trials that the store does not have.

    None: as many as the hours of a sampler's budget allow."""
    stored: int
    """Number of trials that the store has"""
    slots: int
    """Number of trials that run at a time; 0 when none is to run"""


class TrialWatcher(Protocol):
    """Is informed of the progress of trials."""

    def started(self, trial: Trial) -> None:
        """A worker has taken the trial."""

    def progressed(self, trial: Trial, report: Mapping[str, Any]) -> None:
        """The trial has done more steps.

        `report`: a `harness.training.progress.Progress` as a dictionary.
        """

    def ended(self, trial: Trial, report: Mapping[str, Any]) -> None:
        """The trial has finished or failed.

        `report`: its `status`, `reason` and `dev`; `logs`: the command that prints its output.
        """

    def postponed(self, trial: Trial, why: str) -> None:
        """The trial waits for another process, and other trials go first."""

    def preparing(self, title: str) -> None:
        """A worker makes a part that trials share. `title`: what it is, in words."""

    def prepared(self, title: str, reason: str | None, waiting: int) -> None:
        """A part has been made; `reason`: why it has not; `waiting`: trials that wait for it."""

    def stopping(self, running: int) -> None:
        """The sweep is interrupted while so many trials run, and waits for their checkpoints."""


class Everyone:
    """Passes the events of trials on to several watchers. It is a TrialWatcher."""

    def __init__(self, watchers: list[TrialWatcher]) -> None:
        """watchers: may grow, for example when Ray's dashboard is there."""
        self.watchers = watchers

    def started(self, trial: Trial) -> None:
        """A worker has taken the trial."""
        for watcher in self.watchers:
            watcher.started(trial)

    def progressed(self, trial: Trial, report: Mapping[str, Any]) -> None:
        """The trial has done more steps."""
        for watcher in self.watchers:
            watcher.progressed(trial, report)

    def ended(self, trial: Trial, report: Mapping[str, Any]) -> None:
        """The trial has finished or failed."""
        for watcher in self.watchers:
            watcher.ended(trial, report)

    def postponed(self, trial: Trial, why: str) -> None:
        """The trial waits for another process."""
        for watcher in self.watchers:
            watcher.postponed(trial, why)

    def preparing(self, title: str) -> None:
        """A worker makes a part that trials share."""
        for watcher in self.watchers:
            watcher.preparing(title)

    def prepared(self, title: str, reason: str | None, waiting: int) -> None:
        """A part has been made, or cannot be."""
        for watcher in self.watchers:
            watcher.prepared(title, reason, waiting)

    def stopping(self, running: int) -> None:
        """The sweep is interrupted."""
        for watcher in self.watchers:
            watcher.stopping(running)


class SweepWatcher(TrialWatcher, Protocol):
    """Is informed of the progress of a sweep."""

    def notice(self, sentence: str) -> None:
        """Something that the user should know."""

    def round(self, plan: RoundPlan) -> None:
        """A round begins, beside whatever goes on."""

    def underway(self, titles: list[str], left: int | None) -> None:
        """These rounds go on now.

        left: the number of their trials that have not ended; None: it is not known.
        """

    def chosen(self, search: Search, configuration: Values, dev: float | None) -> None:
        """A search has chosen a configuration; `dev` is None when there was only one."""
