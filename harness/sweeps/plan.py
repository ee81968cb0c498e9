"""The plan of a sweep: its trials, which of them the store has, and what the rest would cost."""

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from harness.data.corpora import fewer_than_published
from harness.data.hub import looked_up_once, model_shape
from harness.errors import NotHere, UserError, counted
from harness.files import digest_of
from harness.sweeps.devices import UNKNOWN, Bounds, Device, check_gpus, device_here, named_device
from harness.sweeps.machines import this_machine
from harness.sweeps.memory import most_memory
from harness.sweeps.price import FREE, Price, Prices, spanned
from harness.sweeps.scored import Scored, chosen_of, sampled_of, scored_of, spent_seconds, tried_of
from harness.sweeps.spaces.axes import Axes, Values, axis_text, fewest_and_most, known_values
from harness.sweeps.spaces.search import Search, implied
from harness.sweeps.spaces.space import Sampler
from harness.sweeps.trial_runs import CompleteTrials
from harness.trials.store import Store
from harness.trials.trial import Role, Trial, key


@dataclass(frozen=True)
class PlanLine:
    """One round of one search, or its final seeds and subsets."""

    search: str
    round: str
    varied: dict[str, str]
    """Name of what its trials differ in -> values as text; hyperparameters, or seeds and subsets"""
    trials: int | None
    """Number of trials; None: the round before, or a budget in hours, decides"""
    stored: int
    """Number of trials that the store has finished"""
    to_run: int
    """Number of trials that neither the store nor an earlier line has; the least that it may be"""
    each: Price
    """Costs of one trial, from the cheapest to the dearest"""
    whole: Price
    """Costs of all trials to run together"""
    memory: int | None
    """Least bytes of each worker of a trial; None: an encoder is not here and its size not known"""
    at_most: int | None
    """The most trials to run; None: a budget in hours decides"""
    decided: bool = True
    """Whether its configurations are known; otherwise its costs span those that it may have"""


@dataclass(frozen=True)
class Plan:
    """All rounds of all searches, and what is missing before they can run."""

    lines: list[PlanLine]
    missing: list[str]
    """One sentence for each model or data file that is not on this machine"""
    stand_ins: list[str]
    """One sentence for each corpus that is smaller here than the paper's"""
    device: Device | None
    """The device whose seconds it has; None: this machine has a GPU without a data sheet here"""
    slots: int
    """Trials that run there at a time"""
    cores: int
    """Trials that run on the CPU of this machine at a time"""
    other: Device | None
    """The device for comparison: a GPU beside a CPU, this machine beside a device that was named"""

    def of(self, search: str) -> list[PlanLine]:
        """The lines of a search, by its label."""
        return [line for line in self.lines if line.search == search]

    @property
    def to_run(self) -> int:
        """Number of trials that the store does not have; the least that it may be."""
        return sum(line.to_run for line in self.lines)

    @property
    def trials_text(self) -> str:
        """The trials to run, from the least to the most where scores or hours decide it."""
        most = [line.at_most for line in self.lines if line.at_most is not None]
        if len(most) < len(self.lines):
            return f"{counted(self.to_run, 'trial')} to run and those for which the hours suffice"
        if self.to_run < sum(most):
            return f"{self.to_run} to {counted(sum(most), 'trial')} to run"
        return f"{counted(self.to_run, 'trial')} to run"

    @property
    def whole(self) -> Price:
        """Cost of all trials to run, together."""
        return sum((line.whole for line in self.lines), FREE)

    @property
    def measured(self) -> bool:
        """Whether the time of every line with trials to run follows from trials of the store."""
        return all(line.each.measured for line in self.lines if line.at_most != 0)

    def _repr_html_(self) -> str:
        """The plan in a notebook."""
        rows = [
            (
                line.search, line.round,
                "; ".join(f"{name}: {value}" for name, value in line.varied.items()),
                "?" if line.trials is None else f"{line.trials:,}", f"{line.stored:,}",
                line.each.steps.shown(), line.each.seconds.shown(),
            )
            for line in self.lines
        ]  # fmt: skip
        headings = ("search", "round", "varied", "trials", "stored", "steps", "seconds each")
        parts = [f"<tr>{''.join(f'<th>{name}</th>' for name in headings)}</tr>"]
        parts += [f"<tr>{''.join(f'<td>{escape(text)}</td>' for text in row)}</tr>" for row in rows]
        notes = "".join(f"<p>Not here yet: {escape(each)}</p>" for each in self.missing)
        notes += "".join(f"<p>{escape(each)}</p>" for each in self.stand_ins)
        return f"{notes}<table>{''.join(parts)}</table><p>{self.trials_text}</p>"


@looked_up_once()
def plan_sweep(
    searches: Iterable[Search],
    store: Store,
    *,
    device: str | None = None,
    gpus: int | None = None,
    cpus_per_trial: float = 1,
) -> Plan:
    """The plan of the searches. Nothing is downloaded, trained or written.

    device: the name of what computes them; None: this machine. gpus: how many of it there are.
    `cpus_per_trial`: CPU cores of one trial. Raises UserError for a device that is not known, and
    for a number of GPUs that cannot be.
    """
    searches, machine = list(searches), this_machine()
    chosen = device_here(machine) if device is None else named_device(device)
    check_gpus(chosen, gpus)
    cores = max(1, int((os.cpu_count() or 1) / cpus_per_trial))
    slots, other = gpus or 1, device_here(machine)
    if chosen is not None and not chosen.is_gpu:
        slots, other = cores, named_device(COMPARED)
    elif device is None:
        slots, other = gpus or len(machine.gpus), None
    trainers, lines = implied(searches), list[PlanLine]()
    prices = Prices([*trainers, *searches], store, chosen, other, cpus_per_trial)
    planner = _Planner(store, prices)
    missing: dict[str, None] = {}  # a set in the order of the searches
    smaller: dict[str, None] = {}
    for search in (*trainers, *searches):
        try:
            for trial in search.trials([search.fixed], "final")[:1]:
                key(trial, download=False)
            for name in search.declared.models:
                model_shape(name, download=False)
        except NotHere as error:
            missing[str(error)] = None
        smaller |= dict.fromkeys(
            filter(None, map(fewer_than_published, search.declared.corpora.values()))
        )
        lines += planner.lines(search, only_first=search in trainers)
    return Plan(lines, list(missing), list(smaller), chosen, slots, cores, other)


CORNERS = 16
"""Values of an axis that are priced for the cheapest and the dearest trial, the first and the last
ones"""
COMPARED = "h100"
"""The GPU beside which a CPU is shown"""


class _Planner:
    """The finished trials of a store, which was read once for all searches."""

    def __init__(self, store: Store, prices: Prices) -> None:
        self.store, self.prices, self.complete = store, prices, CompleteTrials(store)
        self.absent: set[tuple[str | None, ...]] = set()
        """Models and data of trials, of which some are not here; most trials share theirs"""
        self.planned: set[str] = set()
        """The identities of the trials in the lines so far, of which each runs once"""

    def lines(self, search: Search, *, only_first: bool = False) -> list[PlanLine]:
        """The lines of a search: its rounds or its sampler, then the final seeds.

        `only_first`: of the final trials, only the one that trains an encoder for others.
        """
        search = self._started(search)
        lines, chosen = self._rounds(search)
        values = search.fixed if chosen is None else chosen
        finals = search.trials([values], "final")[: 1 if only_first else None]
        repeats, count = _repeats_text(finals), len(finals)
        if chosen is not None:
            return [*lines, self._line(search, "final", repeats, finals)]
        varied = [*search.rounds, search.ranges]
        return [
            *lines,
            self._open_line(search, "final", repeats, varied, "final", count, count, trials=count),
        ]

    def _started(self, search: Search) -> Search:
        """The search on the models that others train, if it is known which ones these are."""
        trials: dict[str, Trial] = {}
        for name, trainer in search.trainers.items():
            started = self._started(trainer)
            _, chosen = self._rounds(started)
            if chosen is None:
                return search
            trials[name] = started.training_trial(chosen)
        try:
            return search.on_models_of(trials, download=False)
        except NotHere:
            return search

    def _rounds(self, search: Search) -> tuple[list[PlanLine], Values | None]:
        """The lines of the search, and the chosen configuration when the store has all trials."""
        lines = []
        scored: Scored = []
        complete, repeats = search.ready, len(search.trials([search.fixed], "search"))
        for number, axes in enumerate(search.rounds):
            title = f"round {number + 1}"
            shown = {name: axis_text(axis) for name, axis in axes.items()}
            if not complete and number:
                # Its values, or those that it keeps, depend on scores that are not there yet.
                earlier, limit = search.rounds[: number + 1], search.limit or math.inf
                least, largest, tried = fewest_and_most(earlier, search.config)
                fewest, most = (int(min(size, limit)) * repeats for size in (least, largest))
                new = max(0, fewest - tried * repeats)
                lines.append(
                    self._open_line(
                        search, title, shown, earlier, "search", new, most,
                        trials=most if fewest == most else None,
                    )
                )  # fmt: skip
                continue
            configurations = search.configurations(number, scored if complete else [])
            trials = search.trials(configurations, "search")
            lines.append(self._line(search, title, shown, trials, certain=complete))
            complete = complete and lines[-1].stored == len(trials)
            if complete:
                scored += scored_of(search, configurations, self.store)
        if search.sampler is not None:
            line, complete = self._sampled(search, search.sampler, repeats)
            lines.append(line)
            scored = sampled_of(search, self.store)
        if not complete:
            return lines, None
        return lines, chosen_of(search, scored, self.store) if scored else search.fixed

    def _sampled(self, search: Search, sampler: Sampler, repeats: int) -> tuple[PlanLine, bool]:
        """The line of a sampler with so many trials a configuration; whether its budget is spent.

        A budget in hours may end it before that in configurations, and leaves the trials open.
        """
        tried = tried_of(search, self.store)
        settled = sum(each.is_complete for each in tried)
        spent = spent_seconds(search, self.store)
        seconds = math.inf if sampler.hours is None else max(0.0, 3600 * sampler.hours - spent)
        budget = math.inf if sampler.configurations is None else sampler.configurations
        complete = settled >= budget or not seconds
        # What was running when a sweep was stopped goes on.
        begun = sum(len(each.records) for each in tried if not each.is_complete)
        left = 0 if complete else max(0, (budget - settled) * repeats - begun)
        stored = int(min(settled, budget)) * repeats + (0 if complete else begun)
        title = sampler.name + (f", {sampler.hours:g} h" if sampler.hours else "")
        shown = {name: axis_text(axis) for name, axis in search.ranges.items()}
        most = None if left == math.inf else int(left)
        fewest = int(left) if complete or seconds == math.inf else 0
        line = self._open_line(
            search, title, shown, [search.ranges], "search", fewest, most, stored,
            trials=stored + fewest if fewest == most else None, limit=seconds,
        )  # fmt: skip
        return line, complete

    def _open_line(
        self,
        search: Search,
        title: str,
        shown: dict[str, str],
        rounds: Sequence[Axes],
        role: Role,
        fewest: int,
        most: int | None,
        stored: int = 0,
        *,
        trials: int | None,
        limit: float = math.inf,
    ) -> PlanLine:
        """A line whose configurations are not decided: its costs are over all that it may have.

        fewest, most: trials to run; None: a budget in hours decides. limit: its seconds.
        """
        ends = self._extremes(search, rounds, role)
        price = spanned([self.prices.of(trial) for trial in ends])
        if most is None:
            hours = Bounds(limit, limit)
            whole = Price(UNKNOWN, hours, hours, price.measured)
        else:
            whole = price.times(fewest, most).within(limit)
        return PlanLine(
            search.label, title, shown, trials, stored, fewest, price, whole,
            most_memory(trial.declared for trial in ends), most, decided=len(ends) < 2,
        )  # fmt: skip

    def _extremes(self, search: Search, rounds: Sequence[Axes], role: Role) -> list[Trial]:
        """The cheapest and the dearest trial over some axes, each of which counts for itself."""
        cheap, dear = dict(search.fixed), dict(search.fixed)
        for name, values in known_values(rounds).items():
            if len(values) > CORNERS:
                values = [*values[: CORNERS // 2], *values[-CORNERS // 2 :]]
            priced: list[tuple[float, int]] = []
            for number, value in enumerate(values):
                found = self._trial(search, {**search.fixed, name: value}, role)
                work = None if found is None else self.prices.operations(found)
                if work is not None:
                    priced.append((work, number))
            if priced and min(priced)[0] < max(priced)[0]:
                cheap[name], dear[name] = values[min(priced)[1]], values[max(priced)[1]]
        ends = [self._trial(search, values, role) for values in (cheap, dear)]
        both = [trial for trial in ends if trial is not None]
        if len(both) < 2:  # some values do not go together
            both = search.trials([search.fixed], role)[:1]
        return both[: 1 if cheap == dear else 2]

    @staticmethod
    def _trial(search: Search, values: Values, role: Role) -> Trial | None:
        """The first trial of some values; None: the method refuses them."""
        try:
            return search.trials([values], role)[0]
        except UserError:
            return None

    def _line(
        self,
        search: Search,
        title: str,
        shown: dict[str, str],
        trials: list[Trial],
        *,
        certain: bool = True,
    ) -> PlanLine:
        """`certain`: whether it is certain that these are the trials, and not others like them."""
        missing = [trial for trial in trials if not (certain and self._has(trial))]
        identities = {_identity(trial): trial for trial in missing}
        new = {name: trial for name, trial in identities.items() if name not in self.planned}
        self.planned |= set(new)
        # Seeds and subsets cost the same.
        kinds = {id(trial.declared): trial for trial in trials}
        price = spanned([self.prices.of(trial) for trial in kinds.values()])
        return PlanLine(
            search.label, title, shown, len(trials), len(trials) - len(missing), len(new),
            price, self.prices.of_all(new.values()),
            most_memory(trial.declared for trial in kinds.values()), len(new),
        )  # fmt: skip

    def _has(self, trial: Trial) -> bool:
        declared = trial.declared
        files = map(str, (*declared.corpora.values(), *declared.files))
        needs = (*declared.models, *files, declared.config.suite, declared.config.selected_by)
        if needs in self.absent:
            return False
        try:
            return bool(self.complete.keys({key(trial, download=False): trial}))
        except NotHere:  # without the model or the data file there is no key to look for
            self.absent.add(needs)
            return False


def _repeats_text(trials: list[Trial]) -> dict[str, str]:
    """The seeds of the trials as text, and their label subsets where these matter."""
    seeds = dict.fromkeys(trial.seed for trial in trials)
    subsets = dict.fromkeys(
        trial.configuration["subset"] for trial in trials if "subset" in trial.configuration
    )
    repeats = {"seeds": seeds, "subsets": subsets}
    return {name: ", ".join(map(str, values)) for name, values in repeats.items() if values}


def _identity(trial: Trial) -> str:
    """Digest that tells a trial from others of the plan, also without its data on this machine."""
    config = trial.config.deciding()
    return digest_of([trial.declared.source_digest, config, trial.seed, trial.role])
