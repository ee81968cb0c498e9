"""The configurations that a sampler suggests, or those of a grid with a pruner."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean
from typing import Any

from optuna.trial import FrozenTrial, TrialState

from harness.errors import UserError
from harness.sweeps.budget import Budget
from harness.sweeps.pool import Report, Slot
from harness.sweeps.scored import KEYS, spent_seconds, tried_of
from harness.sweeps.spaces.axes import Values
from harness.sweeps.spaces.search import Search
from harness.sweeps.study import Study
from harness.sweeps.trial_runs import LOOK_SECONDS, TrialRuns
from harness.trials.record import Record
from harness.trials.store import Store
from harness.trials.trial import Trial, key, pruned

REPEATS = 100
"""A sampler that suggests so many known configurations one after the other has no other ones"""


@dataclass(eq=False)
class Configuration:
    """A configuration of which trials are left, and what the others have scored."""

    number: int
    """Its number in the study"""
    left: dict[str, Trial]
    """Key -> trial that has not ended, in the order of subsets and seeds"""
    first: str
    """Key of the trial whose curve a pruner sees"""
    scores: list[float] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)
    """Seconds of training"""
    stopped: bool = False
    """Whether the pruner has stopped it"""


class Configurations:
    """Configurations that run until a budget is spent, or until a grid has ended.

    Each is one trial for each search seed and label subset, and the study learns the mean of their
    dev scores. With a pruner, the seeds of a configuration run one after the other: a pruner of
    curves sees the first one, and where it stops this one, the others do not run. They are recorded
    as pruned, so that the store says that nothing is left.
    """

    def __init__(
        self,
        search: Search,
        study: Study,
        store: Store,
        listed: Iterable[Values] | None = None,
        budget: Budget | None = None,
    ) -> None:
        """`listed`: the configurations of a grid; None: the sampler suggests them.

        `budget`: the time of the sweep; None: no limit.

        What was running when an earlier process ended goes on under its number. Of a sampler, what
        the store has and the study does not know is added to the study.
        """
        self.search, self.study, self.store = search, study, store
        self._open: list[Configuration] = []
        """Configurations of which trials are left"""
        self._waiting: deque[tuple[int | None, Values]] = deque()
        """The configurations of a grid that are still to run, with their numbers in the study"""
        self._asked: set[frozenset[str]] = set()
        """The keys of the trials of each configuration that counts towards the budget"""
        self._heard_of: set[int] = set()
        """The numbers of the configurations that are open here, or were, or need not be"""
        self._running: dict[str, float] = {}
        """Key of a trial -> since when it is waited for"""
        self._repeated, self._spent = 0, 0.0
        repeats = search.trials([search.fixed], "search")
        self._repeats, self.workers = len(repeats), repeats[0].workers
        """The number of trials of a configuration, and of the workers of each"""
        self._sampler = None if listed is not None else search.sampler
        self.time = budget or Budget(None, [search], lambda: 1)
        if listed is None:
            self._go_on()
        else:
            self._take_up(listed)

    # What there is already

    def _go_on(self) -> None:
        """Bring the study of a sampler and the store together."""
        stored = tried_of(self.search, self.store)
        settled = {record.key for tried in stored for record in tried.records}
        self._spent = spent_seconds(self.search, self.store)
        studied: set[str] = set()
        for trial in self.study.trials():
            names = _names(trial)
            if trial.state != TrialState.FAIL:
                studied |= names
            if trial.state == TrialState.RUNNING and not names:
                # The process ended while it was suggested.
                self.study.tell(trial.number, TrialState.FAIL)
            if trial.state in (TrialState.COMPLETE, TrialState.PRUNED):
                self._heard_of.add(trial.number)
                # On other data or under another protocol, its trials had other keys.
                if names <= settled:
                    self._count(names)
        for tried in stored:
            if tried.records[0].key not in studied:
                self._begin(None, tried.values)
        self._join()

    def _join(self) -> list[Configuration]:
        """Take part in what earlier processes or other sweeps of the search have begun.

        The claims in the store see to it that each trial runs once.
        """
        joined = []
        for trial in self.study.trials():
            if trial.number in self._heard_of:
                continue
            if names := _names(trial):
                if trial.state == TrialState.RUNNING:
                    joined.append(self._begin(trial.number, self.study.values(trial)))
                elif trial.state != TrialState.FAIL:
                    self._count(names)
                self._heard_of.add(trial.number)
        return [each for each in joined if each]

    def _take_up(self, listed: Iterable[Values]) -> None:
        """Find the configurations of a grid that are not settled, and their numbers."""
        by_keys: dict[frozenset[str], FrozenTrial] = {
            _names(trial): trial for trial in self.study.trials() if trial.state != TrialState.FAIL
        }
        for values in listed:
            names = self._keys(values)
            trial = by_keys.get(names)
            running = trial is not None and trial.state == TrialState.RUNNING
            if trial is None or running or not all(map(self._complete, names)):
                self._waiting.append((trial.number if trial and running else None, values))

    def _keys(self, values: Values) -> frozenset[str]:
        """The keys of the trials of a configuration."""
        return frozenset(key(trial) for trial in self.search.trials([values], "search"))

    def _complete(self, name: str) -> Record | None:
        """The record of a trial of which this search needs nothing more; None: it is to run."""
        record = self.store.get(name)
        return record if record and record.counts_for(self.search.id) else None

    def _count(self, names: frozenset[str]) -> None:
        """Count a configuration towards the budget, once however often it is suggested."""
        self._repeated = self._repeated + 1 if names in self._asked else 0
        self._asked.add(names)

    # The numbers of trials

    @property
    def left(self) -> set[str]:
        """The keys of the trials of open configurations that have not ended."""
        return {name for each in self._open for name in each.left}

    def more(self) -> int | None:
        """The number of further trials that may be asked for; None: hours decide it."""
        listed = len(self._waiting) * self._repeats
        if not self._may_ask():
            return listed
        assert self._sampler
        most = self._sampler.configurations
        return None if most is None else listed + (most - len(self._asked)) * self._repeats

    @property
    def settled_count(self) -> int:
        """The number of trials of configurations that are finished or pruned."""
        running = {each.first for each in self._open}  # one may be suggested twice
        return (len(self._asked) - len(running)) * self._repeats

    def _may_ask(self) -> bool:
        """Whether the sampler may suggest a further configuration."""
        if self._sampler is None or self._repeated >= REPEATS:
            return False
        if not self.time.has_time(self.search):
            return False
        most, hours = self._sampler.configurations, self._sampler.hours
        now = time.monotonic()
        spent = self._spent + sum(now - since for since in self._running.values())
        return (most is None or len(self._asked) < most) and (hours is None or spent < 3600 * hours)

    # Ask, run, tell

    async def run(self, runs: TrialRuns, slots: Callable[[], int]) -> None:
        """Run configurations until nothing is left to ask for, and all have ended.

        `slots`: the number of workers that run at a time, at any moment. No more configurations are
        open without a score than run at a time, since a sampler learns from the others.
        """
        tasks = [asyncio.create_task(self._run(runs, each)) for each in self._open]
        ours = set(tasks)
        while self._waiting or self._may_ask():
            ended = {task for task in ours if task.done()}
            ours -= ended
            await asyncio.gather(*ended)  # where one has raised an error, so does this
            # What is suggested later is suggested better, so nothing is before a slot is free.
            more = max(0, (self.more() or 0) - 1)
            slot = await runs.lanes.slot(self.search.label, workers=self.workers, more=more)
            if sum(not task.done() for task in ours) >= max(1, slots() // self.workers):
                slot.free()  # some wait for what others make, and hold no slot
                await asyncio.wait(ours, timeout=LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                continue
            if self._sampler:  # other sweeps of the search have workers for what they have begun
                tasks += [asyncio.create_task(self._run(runs, each)) for each in self._join()]
            begun = self._next()
            if begun is None:
                slot.free()
                continue
            task = asyncio.create_task(self._run(runs, begun, slot))
            ours.add(task)
            tasks.append(task)
            await asyncio.sleep(0)  # its other seeds wait for slots before the next configuration
        await asyncio.gather(*tasks)
        if self._sampler and not self.time.has_time(self.search):
            most = self._sampler.configurations
            left = 0 if most is None else max(0, most - len(self._asked)) * self._repeats
            if left or most is None:
                self.time.left_out[self.search.label] += left

    def _next(self) -> Configuration | None:
        """Begin with one more configuration; None where nothing of it is left to run."""
        if self._waiting and not self.time.has_time(self.search):
            self.time.left_out[self.search.label] += len(self._waiting) * self._repeats
            self._waiting.clear()
        if self._waiting:
            return self._begin(*self._waiting.popleft())
        if not self._may_ask():  # the hours are over now
            return None
        number, drawn = self.study.ask()
        return self._begin(number, {**self.search.fixed, **drawn})

    async def _run(
        self, runs: TrialRuns, configuration: Configuration, slot: Slot | None = None
    ) -> None:
        """Run the trials of a configuration that are left. `slot`: for the first of them."""
        if self.search.pruner is None:
            names = list(configuration.left)
            slots = [slot, *[None] * len(names)]
            trials = zip(names, slots, strict=False)
            await asyncio.gather(*(self._trial(runs, configuration, *each) for each in trials))
        while configuration.left:  # a pruner hears of the seeds in their order
            await self._trial(runs, configuration, next(iter(configuration.left)), slot)
            slot = None

    async def _trial(
        self, runs: TrialRuns, configuration: Configuration, name: str, slot: Slot | None
    ) -> None:
        hears = name == configuration.first and not self.study.over_seeds
        progressed = partial(self._stops, configuration) if hears else None
        self._running.setdefault(name, time.monotonic())
        self.time.began(self.search)
        trial = configuration.left[name]
        report = await runs.report(name, trial, self.search.label, slot, progressed)
        self._running.pop(name, None)
        self._spent += report.get("seconds") or 0.0
        self.time.ended(self.search, report)
        self._heard(configuration, name, report)

    def _begin(self, number: int | None, values: Values) -> Configuration | None:
        """Open a configuration, and hear of what the store has of it already.

        It is None where nothing is left of it.
        """
        if number is None:
            number = self.study.add(values)
        self._heard_of.add(number)
        try:
            trials = {key(each): each for each in self.search.trials([values], "search")}
        except UserError:  # two values that do not go together
            self._count(frozenset({str(number)}))
            self.study.tell(number, TrialState.FAIL)
            return None
        self._count(frozenset(trials))
        self.study.name_trials(number, list(trials))
        begun = Configuration(number, dict(trials), first=next(iter(trials)))
        self._open.append(begun)
        for name, trial in trials.items():
            if begun.left and (record := self._complete(name)):
                if name == begun.first and not self.study.over_seeds:
                    self.study.learn(number, curve_of(trial, record))
                cost = record.training_seconds or 0.0
                report = {"status": record.status, "dev": record.dev_score, "cost": cost}
                self._heard(begun, name, report)
            elif self.search.pruner:
                break  # a pruner hears of the seeds in their order
        return begun if begun.left else None

    def _stops(self, configuration: Configuration, report: Report) -> bool:
        """Whether a trial that has done more steps is to end now, because the pruner says so."""
        if (evaluation := report.get("evaluation")) is not None:
            worse = self.study.prunes(configuration.number, evaluation, report["best_dev"])
            # At its last step a trial has finished, and nothing is saved by ending it.
            configuration.stopped |= worse and report["step"] < report["total_steps"]
        return configuration.stopped

    def _heard(self, configuration: Configuration, name: str, report: Mapping[str, Any]) -> None:
        """A trial of an open configuration has ended: tell the study what came of them all."""
        if configuration.left.pop(name, None) is None:
            return  # another seed has failed before
        number = configuration.number
        if report["status"] == "pruned":
            self._prune(configuration)
        elif report["status"] == "failed":
            configuration.left.clear()
            self.study.tell(number, TrialState.FAIL)
        else:
            configuration.scores.append(report["dev"])
            configuration.costs.append(report.get("cost") or 0.0)
            seeds = len(configuration.scores)
            worse = self.study.over_seeds and self.study.prunes(number, seeds, report["dev"])
            if not configuration.left:
                self.study.finished(number, fmean(configuration.scores), fmean(configuration.costs))
            elif worse:
                self._prune(configuration)
        if not configuration.left:
            self._open.remove(configuration)

    def _prune(self, configuration: Configuration) -> None:
        """End a configuration early, and record those of its trials that do not run."""
        self.study.tell(configuration.number, TrialState.PRUNED)
        for trial in configuration.left.values():
            with suppress(UserError):  # the disk is full; the study knows it, too
                self.store.write(pruned(trial, "its search pruned the configuration before it ran"))
        configuration.left.clear()


def _names(trial: FrozenTrial) -> frozenset[str]:
    """The keys of the trials of a configuration, as its study has them."""
    return frozenset(trial.user_attrs.get(KEYS, ()))


def curve_of(trial: Trial, record: Record) -> list[float]:
    """The best dev score so far after each evaluation of the last stage."""
    stages = trial.declared.stages
    if not stages:
        return []
    # The choice of the best checkpoint starts anew behind a stage that is a run of its own.
    apart = {stage.name for stage in stages[:-1] if stage.selection.own_run}
    latest = stages[-1].selection.keep == "last"
    best, curve = float("-inf"), []
    for point in record.history:
        if point["metric"] == "dev" and point["stage"] not in apart:
            best = point["value"] if latest else max(best, point["value"])
            if point["stage"] == stages[-1].name:
                curve.append(best)
    return curve
