"""Where the trials of a queue come from: a list, a search, several of them, or rounds of them."""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from harness.trials.trial import Trial

Result = TypeVar("Result")


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


class Rounds(Generic[Result]):
    """Sources one after the other: the next begins when all trials of the one before have ended.

    For Ray they are one run, so the workers stay from round to round, with what they have imported.
    """

    def __init__(self, rounds: Generator[TrialSource, None, Result]) -> None:
        """`rounds`: yields the sources; it goes on after each, and may ask what came of it."""
        self._rounds = rounds
        self._round: TrialSource = Listed({})
        self._open: set[str] = set()
        """The keys of the trials that have not ended"""
        self._result: Result
        """What the generator returned; a run ends when it has"""
        self._error: Exception | None = None
        self.exhausted = False
        """Whether no further trial will come"""

    def run(self, run: Callable[[TrialSource], None]) -> Result:
        """Run all with `run`, unless there is none, and return what the generator returns.

        It raises what the generator raises.
        """
        self._advance()
        if not self.exhausted:
            run(self)
        if self._error:
            raise self._error
        return self._result

    def _advance(self) -> None:
        try:
            self._round = next(self._rounds)
        except StopIteration as end:
            self.exhausted, self._result = True, end.value
        except Exception as error:  # Ray Tune, which asks for the trials, would wrap it
            self.exhausted, self._error = True, error

    def more(self) -> Mapping[str, Trial]:
        """Further trials of the round; those of the next when all trials have ended."""
        trials = self._round.more()
        while not (trials or self._open or self.exhausted) and self._round.exhausted:
            self._advance()
            trials = self._round.more()
        self._open.update(trials)
        return trials

    def progressed(self, key: str, report: Mapping[str, Any]) -> bool:
        """Whether the trial is to end now."""
        return self._round.progressed(key, report)

    def ended(self, key: str, report: Mapping[str, Any]) -> None:
        """The trial has ended."""
        self._open.discard(key)
        self._round.ended(key, report)
