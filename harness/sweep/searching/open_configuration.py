"""A configuration of a search of which trials are left."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.trials.trial import Trial


@dataclass
class OpenConfiguration:
    """What is left of a configuration, and what its trials have scored so far."""

    left: dict[str, Trial]
    """Key -> trial that has not ended, in the order of subsets and seeds"""
    first: str
    """Key of the trial whose curve the pruner sees"""
    given: set[str] = field(default_factory=set)
    """The keys of the trials that the queue has"""
    scores: list[float] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)
    """Seconds of training"""
    stopped: bool = False
    """Whether the pruner has stopped it"""
    elsewhere: bool = False
    """Whether another sweep of the search has begun it"""
    began: float = field(default_factory=time.monotonic)

    def due(self, *, one_by_one: bool) -> Mapping[str, Trial]:
        """Key -> the trials that may run now: all that are left, or one when none of them runs."""
        due = {name: trial for name, trial in self.left.items() if name not in self.given}
        if one_by_one:
            due = {} if self.given & self.left.keys() else dict(list(due.items())[:1])
        if due and not self.given:
            self.began = time.monotonic()
        self.given |= due.keys()
        return due
