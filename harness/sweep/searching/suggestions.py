"""The trials of the configurations that a sampler suggests, or that a grid with a pruner has."""

import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from statistics import fmean
from typing import Any

import pyarrow.compute as pc
from optuna.trial import FrozenTrial, TrialState

from harness.errors import UserError
from harness.sweep.queue.trial_sources import Line
from harness.sweep.searching.curves import curve_of
from harness.sweep.searching.open_configuration import OpenConfiguration
from harness.sweep.searching.scored import tried_of
from harness.sweep.searching.study import KEYS, Study
from harness.sweep.spaces.axes import Values
from harness.sweep.spaces.search import Search
from harness.trials.store import Store
from harness.trials.trial import Trial, key, pruned

REPEATS = 100
"""A sampler that suggests so many known configurations one after the other has no other ones"""


class Suggestions:
    """A source of trials: each configuration is one trial for each search seed and label subset.

    The study learns the mean of their dev scores. With a pruner, the seeds of a configuration run
    one after the other: a pruner of curves sees the first one, and where it stops this one, the
    others do not run. They are recorded as pruned, so that the store says that nothing is left.
    """

    def __init__(
        self, search: Search, study: Study, store: Store, listed: Iterable[Values] | None = None
    ) -> None:
        """`listed`: the configurations of a grid; None: the sampler suggests them.

        What was running when an earlier process ended goes on under its number. Of a sampler, what
        the store has and the study does not know is added to the study.
        """
        self.search, self.study, self.store = search, study, store
        self.at_a_time = 1
        """Most configurations without a score; a sampler learns from the others"""
        self._open: dict[int, OpenConfiguration] = {}
        self._waiting: deque[tuple[int | None, Values]] = deque()
        """The configurations of a grid that are still to run, with their numbers in the study"""
        self._asked: set[frozenset[str]] = set()
        """The keys of the trials of each configuration that counts towards the budget"""
        self._heard_of: set[int] = set()
        """The numbers of the configurations that are open here, or were, or need not be"""
        self._repeated, self._spent = 0, 0.0
        self._repeats = len(search.trials([search.fixed], "search"))
        """The number of trials of a configuration"""
        self._one_by_one = search.pruner is not None
        self._budget = None if listed is not None else search.sampler
        if listed is None:
            self._go_on()
        else:
            self._take_up(listed)

    # What there is already

    def _go_on(self) -> None:
        """Bring the study of a sampler and the store together."""
        stored = tried_of(self.search, self.store)
        settled = self.store.finished_keys()  # also what another search has finished
        settled |= {record.key for each in stored for record in each.records}
        seconds = self.store.read(
            ("search", "wall_seconds"), pc.field("search") == self.search.id
        ).table["wall_seconds"]
        self._spent = pc.sum(seconds).as_py() or 0.0
        known: set[str] = set()
        for trial in self.study.trials():
            names = frozenset(trial.user_attrs.get(KEYS, ()))
            if trial.state != TrialState.FAIL:
                known |= names
            if trial.state == TrialState.RUNNING and not names:
                self.study.failed(trial.number)  # the process ended while it was suggested
            if trial.state in (TrialState.COMPLETE, TrialState.PRUNED):
                self._heard_of.add(trial.number)
                # On other data or under another protocol, its trials had other keys.
                if names <= settled and names == self._keys({**self.search.fixed, **trial.params}):
                    self._count(names)
        for each in stored:
            if each.records[0].key not in known:
                self._begin(None, each.values)
        self._join(elsewhere=False)

    def _join(self, *, elsewhere: bool) -> None:
        """Take part in what earlier processes or other sweeps of the search have begun.

        The claims in the store see to it that each trial runs once. `elsewhere`: whether another
        sweep has begun it just now, which has a worker for it.
        """
        for trial in self.study.trials():
            names = frozenset(trial.user_attrs.get(KEYS, ()))
            if names and trial.number not in self._heard_of:
                if trial.state == TrialState.RUNNING:
                    self._begin(trial.number, {**self.search.fixed, **trial.params})
                    if each := self._open.get(trial.number):
                        each.elsewhere = elsewhere
                elif trial.state != TrialState.FAIL:
                    self._count(names)
                self._heard_of.add(trial.number)

    def _take_up(self, listed: Iterable[Values]) -> None:
        """Find the configurations of a grid that are not settled, and their numbers."""
        known: dict[frozenset[str], FrozenTrial] = {
            frozenset(trial.user_attrs.get(KEYS, ())): trial
            for trial in self.study.trials()
            if trial.state != TrialState.FAIL
        }
        for values in listed:
            names = self._keys(values)
            trial = known.get(names)
            running = trial is not None and trial.state == TrialState.RUNNING
            if trial is None or running or not self._settled(names):
                self._waiting.append((trial.number if trial and running else None, values))

    def _keys(self, values: Values) -> frozenset[str]:
        """The keys of the trials of a configuration."""
        return frozenset(key(trial) for trial in self.search.trials([values], "search"))

    def _settled(self, names: Iterable[str]) -> bool:
        records = map(self.store.get, names)
        return all(record and record.settled_for(self.search.id) for record in records)

    def _count(self, names: frozenset[str]) -> None:
        """Count a configuration towards the budget, once however often it is suggested."""
        self._repeated = self._repeated + 1 if names in self._asked else 0
        self._asked.add(names)

    # A source of trials, and its line

    learns = True

    def lines(self) -> Sequence[Line]:
        """One line."""
        return [self]

    @property
    def to_run(self) -> int | None:
        """The number of trials that are left; None: as many as a budget in hours allows."""
        left = len({name for each in self._open.values() for name in each.left})
        left += len(self._waiting) * self._repeats
        if self._budget is None or self.exhausted:
            return left
        most = self._budget.configurations
        return None if most is None else left + max(0, most - len(self._asked)) * self._repeats

    @property
    def settled(self) -> int:
        """The number of trials of configurations that are finished or pruned."""
        running = {each.first for each in self._open.values()}  # one may be suggested twice
        return (len(self._asked) - len(running)) * self._repeats

    @property
    def exhausted(self) -> bool:
        """Whether the budget is spent and every configuration has ended."""
        return not self._open and not self._waiting and not self._may_ask()

    def more(self) -> Mapping[str, Trial]:
        """The next trials of an open configuration, or those of one more if there may be one now.

        A configuration of which the store has everything needs no trial.
        """
        if self._budget is not None and self._has_room():
            self._join(elsewhere=True)
        for each in self._open.values():
            if due := each.due(one_by_one=self._one_by_one):
                return due
        while self._has_room() and (self._waiting or self._may_ask()):
            found = self._open.get(self._next())
            if found and (due := found.due(one_by_one=self._one_by_one)):
                return due
        return {}

    def progressed(self, key: str, report: Mapping[str, Any]) -> bool:
        """Whether a trial that has done more steps is to end now, because the pruner says so."""
        evaluation, stops = report.get("evaluation"), False
        for number, each in self._open.items():
            if each.first != key or self.study.over_seeds:
                continue
            if evaluation is not None:
                worse = self.study.prunes(number, evaluation, report["best_dev"])
                # At its last step a trial has finished, and nothing is saved by ending it.
                each.stopped |= worse and report["step"] < report["total_steps"]
            stops |= each.stopped
        return stops

    def ended(self, key: str, report: Mapping[str, Any]) -> None:
        """Tell the study of a configuration's end when all of its trials have ended."""
        self._spent += report.get("seconds") or 0.0
        for number in [number for number, each in self._open.items() if key in each.left]:
            self._heard(number, key, report)

    def _has_room(self) -> bool:
        return sum(not each.elsewhere for each in self._open.values()) < self.at_a_time

    def _may_ask(self) -> bool:
        """Whether the sampler may suggest a further configuration."""
        if self._budget is None or self._repeated >= REPEATS:
            return False
        most, hours = self._budget.configurations, self._budget.hours
        now = time.monotonic()
        spent = self._spent + sum(now - each.began for each in self._open.values() if each.given)
        return (most is None or len(self._asked) < most) and (hours is None or spent < 3600 * hours)

    def _next(self) -> int:
        """Begin with one more configuration, and return its number."""
        if self._waiting:
            return self._begin(*self._waiting.popleft())
        number, drawn = self.study.ask()
        return self._begin(number, {**self.search.fixed, **drawn})

    # The course of a configuration

    def _begin(self, number: int | None, configuration: Values) -> int:
        """Open a configuration, and hear of what the store has of it already."""
        if number is None:
            number = self.study.add(configuration)
        self._heard_of.add(number)
        try:
            trials = {key(each): each for each in self.search.trials([configuration], "search")}
        except UserError:  # two values that do not go together
            self._count(frozenset({str(number)}))
            self.study.failed(number)
            return number
        self._count(frozenset(trials))
        self.study.name_trials(number, list(trials))
        self._open[number] = OpenConfiguration(dict(trials), first=next(iter(trials)))
        for name, trial in trials.items():
            record = self.store.get(name)
            if record is not None and record.settled_for(self.search.id):
                if name == self._open[number].first and not self.study.over_seeds:
                    self.study.learn(number, curve_of(trial, record))
                cost = record.training_seconds or 0.0
                self._heard(
                    number, name, {"status": record.status, "dev": record.dev_score, "cost": cost}
                )
            elif self._one_by_one:
                break  # a pruner hears of the seeds in their order
            if number not in self._open:
                break
        return number

    def _heard(self, number: int, name: str, report: Mapping[str, Any]) -> None:
        """A trial of an open configuration has ended."""
        each = self._open[number]
        del each.left[name]
        if report["status"] == "pruned":
            self._prune(number)
        elif report["status"] == "failed":
            del self._open[number]
            self.study.failed(number)
        else:
            each.scores.append(report["dev"])
            each.costs.append(report.get("cost") or 0.0)
            worse = self.study.over_seeds and self.study.prunes(
                number, len(each.scores), report["dev"]
            )
            if not each.left:
                del self._open[number]
                self.study.finished(number, fmean(each.scores), fmean(each.costs))
            elif worse:
                self._prune(number)

    def _prune(self, number: int) -> None:
        """End a configuration early, and record those of its trials that do not run."""
        each = self._open.pop(number)
        self.study.pruned(number)
        for trial in each.left.values():
            with suppress(UserError):  # the disk is full; the study knows it, too
                self.store.write(pruned(trial, "its search pruned the configuration before it ran"))
