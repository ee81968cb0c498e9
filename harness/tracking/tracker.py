"""What an experiment tracker has to do, and what it is told of a trial."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

Scalar = bool | int | float | str
PROJECT = "harness"
"""The project of the runs, in trackers that have projects"""


@dataclass(frozen=True)
class About:
    """What a tracker is told of a trial before it runs."""

    key: str
    label: str
    """The trial as people read it, as in the terminal and in Ray's dashboard"""
    group: str
    """The name of the sweep"""
    role: str
    configuration: Mapping[str, Scalar]
    """Hyperparameter -> value, with method, seed and key"""


class TrackedRun(Protocol):
    """A trial in a tracker. Its methods raise whatever the tracker's library raises."""

    identity: str
    """With this, the tracker finds the run again"""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Keep values of metrics at a step of the trial. The steps never go back."""

    def flush(self) -> None:
        """Write what was logged, as far as the library lets us ask for it."""

    def end(self, step: int, scores: Mapping[str, float], status: str) -> None:
        """Keep what the record has at the end, and close the run.

        `status`: that of the record, such as `finished`.
        """

    def leave(self) -> None:
        """Close the run of a trial that goes on later."""


class Tracker(Protocol):
    """A tracker. It takes any number of runs at a time, all from one thread."""

    def begin(self, about: About, identity: str | None) -> TrackedRun:
        """Begin the run of a trial, or go on with the one of this identity."""
        ...
