"""The plan of a sweep: its trials, which of them the store has, and what the rest would cost."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from html import escape
from statistics import median
from typing import Any

import pyarrow.compute as pc

from harness.data.hub import model_shape
from harness.errors import NotHere
from harness.files import digest_of
from harness.sweeps import cost
from harness.sweeps.memory import most_memory
from harness.sweeps.scored import Scored, chosen_of, sampled_of, scored_of, tried_of
from harness.sweeps.spaces.axes import Between, Values, axis_text
from harness.sweeps.spaces.search import Search, implied
from harness.trials.store import Store
from harness.trials.trial import Role, Trial, key

_COLUMNS = (
    "method", "encoder", "setting", "role", "steps", "wall_seconds", "training_seconds",
)  # fmt: skip


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
    """Number of trials that neither the store nor an earlier line has, as far as it is known"""
    steps: int | None
    """Optimiser steps of a trial; None: the corpus is not here and its size is not published"""
    seconds: float | None
    """Estimate for one trial; None: the encoder or the corpus is not on this machine"""
    memory: int | None
    """Least bytes of each worker of a trial; None: as for seconds"""
    at_most: bool = False
    """Whether steps and seconds are upper bounds, because a trial may run out of patience"""


@dataclass(frozen=True)
class Plan:
    """All rounds of all searches, and what is missing before they can run."""

    lines: list[PlanLine]
    missing: list[str]
    """One sentence for each model or data file that is not on this machine"""

    def of(self, search: str) -> list[PlanLine]:
        """The lines of a search, by its label."""
        return [line for line in self.lines if line.search == search]

    @property
    def to_run(self) -> int:
        """Number of trials that the store does not have, as far as it is known."""
        return sum(line.to_run for line in self.lines)

    @property
    def steps(self) -> int | None:
        """Optimiser steps of the trials to run; None when a line has no number of steps."""
        known = [line.to_run * line.steps for line in self.lines if line.steps is not None]
        return sum(known) if len(known) == len(self.lines) else None

    @property
    def seconds(self) -> float | None:
        """Estimated seconds of the trials one by one; None when a line has no estimate."""
        known = [line.to_run * line.seconds for line in self.lines if line.seconds is not None]
        return sum(known) if len(known) == len(self.lines) else None

    def _repr_html_(self) -> str:
        """The plan in a notebook."""
        rows = [
            (
                line.search,
                line.round,
                "; ".join(f"{name}: {value}" for name, value in line.varied.items()),
                *("?" if number is None else f"{number:,}" for number in (
                    line.trials, line.stored, line.steps,
                    None if line.seconds is None else round(line.seconds),
                )),
            )
            for line in self.lines
        ]  # fmt: skip
        headings = ("search", "round", "varied", "trials", "stored", "steps", "seconds each")
        parts = [f"<tr>{''.join(f'<th>{name}</th>' for name in headings)}</tr>"]
        parts += [f"<tr>{''.join(f'<td>{escape(text)}</td>' for text in row)}</tr>" for row in rows]
        notes = "".join(f"<p>Not here yet: {escape(each)}</p>" for each in self.missing)
        return f"<table>{''.join(parts)}</table><p>{self.to_run} trials to run</p>{notes}"


def plan_sweep(searches: Iterable[Search], store: Store) -> Plan:
    """The plan of the searches. Nothing is downloaded, trained or written."""
    planner = _Planner(store)
    searches = list(searches)
    trainers, lines = implied(searches), list[PlanLine]()
    missing: dict[str, None] = {}  # a set in the order of the searches
    for search in (*trainers, *searches):
        try:
            for trial in search.trials([search.fixed], "final")[:1]:
                key(trial, download=False)
            for name in search.declared.models:
                model_shape(name, download=False)
        except NotHere as error:
            missing[str(error)] = None
        lines += planner.lines(search, only_first=search in trainers)
    return Plan(lines, list(missing))


class _Planner:
    """The finished trials of a store, which was read once for all searches."""

    def __init__(self, store: Store) -> None:
        self.store = store
        pruned = store.read(("search",), pc.field("status") == "pruned").table
        self.pruned = {(row["key"], row["search"]) for row in pruned.to_pylist()}
        self.finished = store.read(_COLUMNS, pc.field("status") == "finished").table
        self.keys = set(self.finished["key"].to_pylist())
        self.planned: set[str] = set()
        """The identities of the trials in the lines so far, of which each runs once"""

    def lines(self, search: Search, *, only_first: bool = False) -> list[PlanLine]:
        """The lines of a search: its rounds or its sampler, then the final seeds.

        `only_first`: of the final trials, only the one that trains an encoder for others.
        """
        search = self._started(search)
        lines, chosen = self._rounds(search)
        finals = search.trials([chosen or search.fixed], "final")[: 1 if only_first else None]
        return [
            *lines,
            self._line(search, "final", _repeats_text(finals), finals, known=bool(chosen)),
        ]

    def _started(self, search: Search) -> Search:
        """The search on the encoder that another one trains, if it is known which one that is."""
        if search.pretraining_search is None:
            return search
        _, chosen = self._rounds(search.pretraining_search)
        try:
            if chosen:
                return search.on_encoder_of(search.pretraining_trial(chosen), download=False)
        except NotHere:
            pass
        return search

    def _rounds(self, search: Search) -> tuple[list[PlanLine], Values | None]:
        """The lines of the search, and the chosen configuration when the store has all trials."""
        lines = []
        scored: Scored = []
        complete = search.ready
        for number, axes in enumerate(search.rounds):
            title, shown = (
                f"round {number + 1}",
                {name: axis_text(axis) for name, axis in axes.items()},
            )
            # The values of `between` depend on scores that are not there yet.
            if not complete and any(isinstance(axis, Between) for axis in axes.values()):
                lines.append(self._line(search, title, shown, None))
                continue
            configurations = search.configurations(number, scored if complete else [])
            trials = search.trials(configurations, "search")
            lines.append(self._line(search, title, shown, trials, known=complete))
            complete = complete and lines[-1].stored == len(trials)
            if complete:
                scored += scored_of(search, configurations, self.store)
        if search.sampler is not None:
            settled = sum(each.is_complete for each in tried_of(search, self.store))
            scored = sampled_of(search, self.store)
            budget = search.sampler.configurations
            complete = budget is not None and settled >= budget
            lines.append(self._sampler_line(search, settled))
        if not complete:
            return lines, None
        return lines, chosen_of(search, scored, self.store) if scored else search.fixed

    def _sampler_line(self, search: Search, known: int) -> PlanLine:
        """The line of a sampler. `known`: number of configurations that the store has settled."""
        assert search.sampler is not None
        budget, hours = search.sampler.configurations, search.sampler.hours
        ranges = {name: axis_text(axis) for name, axis in search.ranges.items()}
        each = len(search.trials([search.fixed], "search"))
        title = search.sampler.name + (f", {hours:g} h" if hours else "")
        line = self._line(search, title, ranges, None)
        if budget is None:
            return replace(line, stored=known * each)
        to_run, trials = max(0, budget - known) * each, budget * each
        return replace(line, trials=trials, stored=trials - to_run, to_run=to_run)

    def _line(
        self,
        search: Search,
        title: str,
        shown: dict[str, str],
        trials: list[Trial] | None,
        *,
        known: bool = False,
    ) -> PlanLine:
        """`known`: whether it is certain that these are the trials, and not others like them."""
        count = None if trials is None else len(trials)
        stored, to_run = self._counts(trials) if trials and known else (0, count or 0)
        steps = search.declared.steps
        seconds = self._seconds(search, steps, "final" if title == "final" else "search")
        memory = most_memory([trial.declared for trial in trials or []] or [search.declared])
        return PlanLine(
            search.label, title, shown, count, stored, to_run, steps, seconds, memory,
            at_most=search.declared.may_end_early,
        )  # fmt: skip

    def _counts(self, trials: list[Trial]) -> tuple[int, int]:
        """Numbers of the trials that the store has, and of those that nothing has yet."""
        missing = [trial for trial in trials if not self._has(trial)]
        new = {_identity(trial) for trial in missing} - self.planned
        self.planned |= new
        return len(trials) - len(missing), len(new)

    def _seconds(self, search: Search, steps: int | None, role: Role) -> float | None:
        """The median cost of this method and encoder in the store, or else an estimate.

        The training part is scaled to the number of steps.
        """
        if steps is None:
            return None
        alike = self.finished.filter(
            (pc.field("method") == search.name)
            & (pc.field("encoder") == search.config.encoder)
            & (pc.field("setting") == search.config.setting)
            & (pc.field("role") == role)
        )
        if alike.num_rows:
            return float(median(_scaled(row, steps) for row in alike.to_pylist()))
        return cost.estimated_seconds(search.declared, steps, tested=role == "final")

    def _has(self, trial: Trial) -> bool:
        try:
            name = key(trial, download=False)
            return name in self.keys or (name, trial.search) in self.pruned
        except NotHere:
            return False  # without the model or the data file there is no key to look for


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


def _scaled(row: Mapping[str, Any], steps: int) -> float:
    """Seconds that the trial would have taken with so many steps."""
    training, whole = row["training_seconds"] or 0.0, row["wall_seconds"] or 0.0
    return float(whole - training + training * steps / max(1, row["steps"] or 0))
