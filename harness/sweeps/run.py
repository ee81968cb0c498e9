"""A sweep from its first check to its last final seed, to be read from top to bottom.

Its searches go on side by side: each has rounds or a sampler, chooses on dev, and trains what it
has chosen on the final seeds. The store says what is left to do, so an interrupted sweep goes on
when the same command is given.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from harness.sweeps.budget import Budget
from harness.sweeps.operations import long_first
from harness.sweeps.pool import Lanes, Pool, Slot, finish
from harness.sweeps.scored import Scored, chosen_of, sampled_of, scored_of, tried_of
from harness.sweeps.screen.watcher import Phase, Phases, SweepWatcher, TrialWatcher
from harness.sweeps.spaces.axes import Values
from harness.sweeps.spaces.search import Search, implied
from harness.sweeps.spaces.space import Sampler
from harness.sweeps.trial_runs import TrialRuns
from harness.training.interruption import outside
from harness.trials.store import Store
from harness.trials.trial import Trial, key

Training = asyncio.Future[tuple[Search, Trial] | None]
"""The search that trains a model for others, and the trial that does so; None: no configuration of
the search has finished"""


@dataclass(frozen=True)
class SweepResult:
    """The outcome of a sweep beside the records in the store."""

    failed: int
    """Trials of this sweep that failed"""
    undecided: list[str]
    """Searches of which no configuration finished"""
    finals: set[str]
    """Keys of the final trials"""
    left_out: Mapping[str, int]
    """Label of a search -> its trials for which the budget had no time; 0: their number is open"""


class Sweep:
    """The searches of one sweep, and what they have come to."""

    def __init__(
        self,
        searches: list[Search],
        store: Store,
        start: Callable[[], Pool],
        watcher: SweepWatcher,
        heard: TrialWatcher,
        budget: float | None = None,
    ) -> None:
        """`start`: gives what runs trials; it is called when there is one to run.

        `heard`: hears of the trials; it is the watcher, or has it among others. `budget`: seconds
        of the sweep; None: no limit.
        """
        self.searches, self.store, self.watcher = searches, store, watcher
        self.trainers = implied(searches)
        """Searches that are run for the models of others alone"""
        self.everything = [*self.trainers, *searches]
        """All searches, each behind those that train models for it"""
        self._start = start
        self.lanes = Lanes()
        self.runs = TrialRuns(store, self.lanes, lambda: self.pool, heard)
        self.phases = Phases(watcher, lambda: self.pool.slots)
        self.budget = Budget(budget, self.everything, lambda: self.pool.slots)
        self._checked: set[str] = set()
        """Searches of which it is known that their trials can run"""
        self._samplers: set[str] = set()
        self._undecided: list[str] = []
        self._finals: set[str] = set()
        self._training: list[tuple[Search, Training]] = []
        """The searches, and which of their trials train models for others"""

    @cached_property
    def pool(self) -> Pool:
        """The pool that runs trials; it is made when the first one is to run."""
        return self._start()

    def check(self, *, only_parts: bool = False) -> None:
        """Check every search that the store has not finished, before anything runs.

        `only_parts`: whether no trial is going to run, so that none needs to fit a machine. Raises
        UserError for trials that cannot run, as without a model or a data file.
        """
        missing: dict[str, Trial] = {}
        for search in self.everything:
            trials = _by_key(search.known_trials())
            if left := trials.keys() - self.runs.complete.keys(trials):
                self._check_runnable(search)
            missing |= {name: trials[name] for name in left}
        if missing and not only_parts:
            self.pool.check_fits(missing.values())

    def _check_runnable(self, search: Search) -> None:
        if search.id not in self._checked:
            from harness.trials.run import check_runnable  # with torch

            check_runnable(search.trials([search.fixed], "final")[0])
            self._checked.add(search.id)

    def serve(self, main: Coroutine[Any, Any, None]) -> SweepResult:
        """Run the tasks of this sweep to their end."""
        loop = asyncio.new_event_loop()
        try:
            sweep = loop.create_task(main)
            wanted = loop.create_task(self.lanes.wanted.wait())
            either = asyncio.wait([sweep, wanted], return_when=asyncio.FIRST_COMPLETED)
            loop.run_until_complete(either)
            if not sweep.done():
                self.pool.serve(loop, sweep, self.lanes)
                self.runs.compact()
            sweep.result()
        finally:
            outside.clear()
            finish(loop)
        left_out = dict(self.budget.left_out)
        return SweepResult(self._failed(), self._undecided, self._finals, left_out)

    async def prepare(self) -> None:
        """Make what the known trials share, and run none of them."""
        untrained = [search for search in self.everything if not search.trainers]
        trials = _by_key(trial for search in untrained for trial in search.known_trials())
        finished = self.runs.complete.finished
        missing = {name: trial for name, trial in trials.items() if name not in finished}
        self.runs.expected |= missing
        await asyncio.gather(*(self.runs.prepared(*each) for each in missing.items()))

    async def run(self) -> None:
        """Run the searches side by side, and raise what the first of them has raised, if any."""
        if not self.searches:  # a published table that lacks nothing
            self.watcher.notice("no trial to run: the store has all that can run here")
        loop = asyncio.get_running_loop()
        self._training = [(each, loop.create_future()) for each in self.everything]
        searches = (
            self._from_trained(search, training, trains=number < len(self.trainers))
            for number, (search, training) in enumerate(self._training)
        )
        # One that raises an error does not end the others.
        for ended in await asyncio.gather(*searches, return_exceptions=True):
            if isinstance(ended, BaseException):
                raise ended

    async def _from_trained(self, search: Search, training: Training, *, trains: bool) -> None:
        """A search as soon as the models that others train for it are there."""
        try:
            trials: dict[str, Trial] = {}
            for name, trainer in search.trainers.items():
                chosen = next(future for other, future in self._training if other == trainer)
                if (trained := await chosen) is None:
                    self._undecided.append(search.label)
                    return
                await self._all("", trained[0], [trained[1]])
                trials[name] = trained[1]
            await self._search(search.on_models_of(trials), training, trains=trains)
        finally:
            if not training.done():
                training.set_result(None)

    async def _search(self, search: Search, training: Training, *, trains: bool) -> None:
        """Search, choose, and train the chosen configuration on the final seeds.

        `training`: gets the trial that trains a model for other searches, when it is known.
        `trains`: whether that is the only one of the final trials.
        """
        if search.sampler:
            scored = await self._sampled(search, search.sampler)
        else:
            scored = await self._rounds(search)
        # A search without rounds and without a sampler has a single configuration.
        if not scored and (search.rounds or search.sampler):
            self._undecided.append(search.label)
            return
        values = chosen_of(search, scored, self.store) if scored else search.fixed
        dev = next((dev for each, dev in scored if each == values), None)
        self.watcher.chosen(search, values, dev)
        finals = search.trials([values], "final")[: 1 if trains else None]
        if not trains:
            self._finals |= _by_key(finals).keys()
        training.set_result((search, search.training_trial(values)))
        await self._all("final seeds", search, finals)

    async def _rounds(self, search: Search) -> Scored:
        """The configurations of a search with their mean dev scores, from all of its rounds."""
        scored: Scored = []
        for number in range(len(search.rounds)):
            if number and not scored:
                break  # there is nothing from which the next round could start
            values, name = search.configurations(number, scored), f"round {number + 1}"
            trials = search.trials(values, "search")
            by_key = _by_key(trials)
            stored = len(self.runs.complete.keys(by_key))
            if search.pruner and stored < len(by_key):  # it says how far each of them runs
                await self._judged(f"search, {name}", search, name, values, stored)
            else:
                await self._all(f"search, {name}", search, trials, searching=True)
            scored += scored_of(search, values, self.store)
        return scored

    async def _sampled(self, search: Search, sampler: Sampler) -> Scored:
        """Spend what is left of a sampler's budget; the configurations with their scores.

        The configurations that the store has from this search count towards the budget, and the
        sampler learns from them.
        """
        self._samplers.add(search.id)
        title = f"search, {sampler.name} on {search.label}"
        settled = [each.values for each in tried_of(search, self.store) if each.is_complete]
        if sampler.configurations is not None and len(settled) >= sampler.configurations:
            await self._all(title, search, search.trials(settled, "search"))
        else:
            await self._judged(title, search)
        return sampled_of(search, self.store)

    async def _judged(
        self,
        title: str,
        search: Search,
        part: str = "",
        listed: list[Values] | None = None,
        stored: int | None = None,
    ) -> None:
        """Run configurations of which a study decides which trials run, and when.

        part: the round of a grid, whose configurations are listed, and so many trials stored.
        """
        from harness.sweeps.configurations import Configurations
        from harness.sweeps.study import Study  # Optuna takes long to import

        study = Study(search, self.store, part)
        configurations = Configurations(search, study, self.store, listed, self.budget)
        phase = Phase(
            title,
            lambda: configurations.left,
            configurations.settled_count if stored is None else stored,
            configurations.more,
            configurations.workers,
        )
        if configurations.left or configurations.more() != 0:
            self._check_runnable(search)
        async with self.phases.running(phase):
            await configurations.run(self.runs, lambda: self.pool.slots)

    async def _all(
        self, title: str, search: Search, trials: list[Trial], *, searching: bool = False
    ) -> None:
        """Run the trials that the store lacks; of a search, those for which there is time."""
        by_key = _by_key(trials)
        settled = self.runs.complete.keys(by_key)
        missing = long_first({name: by_key[name] for name in by_key if name not in settled})
        workers = max((each.workers for each in missing.values()), default=1)
        phase = Phase(title, missing.keys, len(settled), workers=workers)
        if missing:
            self._check_runnable(search)
        self.runs.expected |= {
            name: trial for name, trial in missing.items() if name not in self.runs.reports
        }
        if title and not searching:
            self.budget.finals(search, len(missing))

        async def run(name: str, slot: Slot | None) -> None:
            report = await self.runs.report(name, missing[name], search.label, slot)
            self.budget.ended(search, report, final=not searching)
            del missing[name]

        async with self.phases.running(phase):
            tasks, late = [], list[str]()
            for number, (name, trial) in enumerate(list(missing.items()), 1):
                asked = name in self.runs.reports  # another search has done so
                slot = None
                if not asked and not late:
                    more = len(by_key) - len(settled) - number
                    slot = await self.lanes.slot(search.label, workers=trial.workers, more=more)
                if searching and not asked and (late or not self.budget.has_time(search)):
                    late.append(name)
                    if slot:
                        slot.free()
                    continue
                if searching:
                    self.budget.began(search)
                tasks.append(asyncio.create_task(run(name, slot)))
            for name in late:
                del missing[name]
                self.runs.expected.pop(name, None)
            self.budget.left_out.update({search.label: len(late)} if late else {})
            await asyncio.gather(*tasks)

    def _failed(self) -> int:
        """The number of trials of this sweep that have failed, also in earlier runs of samplers."""
        reports = {name: task.result() for name, task in self.runs.reports.items()}
        failed = {name for name, report in reports.items() if report["status"] == "failed"}
        if not self._samplers:
            return len(failed)
        wanted = {"status": ["failed"], "role": ["search"], "search": self._samplers}
        return len(failed.union(self.store.read((), wanted).table["key"].to_pylist()))


def _by_key(trials: Iterable[Trial]) -> dict[str, Trial]:
    return {key(trial): trial for trial in trials}
