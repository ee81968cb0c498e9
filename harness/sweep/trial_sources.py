"""Where the trials of a queue come from: a list, a search, or several of them."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from harness.trials.trial import Trial


class TrialSource(Protocol):
    """Where the trials of a queue come from."""

    def more(self) -> Mapping[str, Trial]:
        """Key -> further trials; nothing when there are none now."""

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
    """A list of trials that is known from the beginning."""

    def __init__(self, trials: Mapping[str, Trial]) -> None:
        self._trials = trials

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


class Together:
    """Several sources at a time. A trial that two of them have runs once."""

    def __init__(self, sources: Sequence[TrialSource]) -> None:
        self.sources = sources

    def more(self) -> Mapping[str, Trial]:
        """Further trials of the first source that has any now."""
        return next(filter(None, (source.more() for source in self.sources)), {})

    def progressed(self, key: str, report: Mapping[str, Any]) -> bool:
        """Whether the trial is to end now, because one of the sources says so."""
        stops = [source.progressed(key, report) for source in self.sources]
        return any(stops)

    def ended(self, key: str, report: Mapping[str, Any]) -> None:
        """Tell all sources; those that do not have the trial know that."""
        for source in self.sources:
            source.ended(key, report)

    @property
    def exhausted(self) -> bool:
        """Whether all sources are exhausted."""
        return all(source.exhausted for source in self.sources)
