"""What a sweep would do: the resolved trials, what the store already has, and what the rest would cost."""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any

from harness.errors import UserError
from harness.sweep import cost
from harness.sweep.driver import sampled, scores
from harness.sweep.search import Search, best
from harness.sweep.space import Between, Range, Span, Values
from harness.trials.store import Store
from harness.trials.trial import Role, Trial, key


@dataclass(frozen=True)
class Line:
    """One round of one search, or its final seeds and subsets."""

    search: str
    round: str
    varied: dict[str, str]
    """What differs between its trials: hyperparameters, or seeds and subsets"""
    trials: int | None
    """None: decided by the round before"""
    stored: int
    steps: int | None
    """Updates per trial; None: the corpus is not here and its size is not published"""
    seconds: float | None
    """Of one trial, estimated; None: the encoder or the corpus is not at hand"""


@dataclass(frozen=True)
class Plan:
    """All lines, and what is missing before the plan could run."""

    lines: list[Line]
    missing: list[str]

    @property
    def to_run(self) -> int:
        """Trials that the store does not have, as far as they are known."""
        return sum(line.trials - line.stored for line in self.lines if line.trials is not None)

    def seconds(self, slots: int) -> float | None:
        """Estimated time with `slots` trials at a time; None when a line has no estimate."""
        costs = [
            ((line.trials or 0) - line.stored) * line.seconds if line.seconds is not None else None
            for line in self.lines
        ]
        known = [cost for cost in costs if cost is not None]
        return sum(known) / slots if len(known) == len(costs) else None


def plan(searches: Iterable[Search], store: Store) -> Plan:
    """Nothing is downloaded, trained or written."""
    rows = store.read().rows()
    finished = {row["key"] for row in rows if row["status"] == "finished"}
    lines: list[Line] = []
    missing: dict[str, None] = {}
    for search in searches:
        try:
            for trial in search.trials([search.fixed], "final")[:1]:
                key(trial, download=False)
        except UserError as error:
            missing[str(error)] = None
        searched, chosen = _rounds(search, finished, rows, store)
        lines += searched
        finals = search.trials([chosen or search.fixed], "final")
        stored = _stored(finals, finished) if chosen else 0
        lines.append(_line(search, "final", _repeats(finals), len(finals), stored, rows))
    return Plan(lines, list(missing))


def _rounds(
    search: Search, finished: set[str], rows: list[dict[str, Any]], store: Store
) -> tuple[list[Line], Values | None]:
    """The lines of the search, and the configuration that it chooses when the store has all of it."""
    lines = []
    scored: list[tuple[Values, float]] = []
    complete = True
    for number, axes in enumerate(search.rounds):
        shown = {name: _describe(axis) for name, axis in axes.items()}
        if not complete and any(isinstance(axis, Between) for axis in axes.values()):
            lines.append(_line(search, f"round {number + 1}", shown, None, 0, rows))
            continue
        configurations = search.configurations(number, scored if complete else [])
        trials = search.trials(configurations, "search")
        stored = _stored(trials, finished) if complete else 0
        complete = complete and stored == len(trials)
        if complete:
            scored += scores(search, configurations, store)
        lines.append(_line(search, f"round {number + 1}", shown, len(trials), stored, rows))
    if search.sampler is not None:
        ranges = {name: _describe(axis) for name, axis in search.ranges.items()}
        scored = sampled(search, store)
        budget, known = search.sampler.trials, len(scored)
        complete = known >= budget
        each = len(search.trials([search.fixed], "search"))
        lines.append(
            _line(
                search, search.sampler.name, ranges, budget * each, min(known, budget) * each, rows
            )
        )
    if not complete:
        return lines, None
    return lines, best(scored) if scored else search.fixed


def _line(
    search: Search,
    title: str,
    shown: dict[str, str],
    trials: int | None,
    stored: int,
    rows: list[dict[str, Any]],
) -> Line:
    steps = search.declared.steps()
    role: Role = "final" if title == "final" else "search"
    seconds = _seconds(search, steps, role, rows)
    return Line(search.label, title, shown, trials, stored, steps, seconds)


def _repeats(trials: list[Trial]) -> dict[str, str]:
    """The seeds, and the subsets of the labels where they matter, on which one configuration is run."""
    seeds = dict.fromkeys(trial.seed for trial in trials)
    subsets = dict.fromkeys(
        trial.configuration["subset"] for trial in trials if "subset" in trial.configuration
    )
    told = {"seeds": seeds, "subsets": subsets}
    return {name: ", ".join(map(str, values)) for name, values in told.items() if values}


def _seconds(
    search: Search, steps: int | None, role: Role, rows: list[dict[str, Any]]
) -> float | None:
    """Median cost of this method and encoder in the store, its training part scaled to the number of updates; when
    there is none, from arithmetic."""
    config = search.config
    if steps is None:
        return None
    alike = [
        row
        for row in rows
        if row["status"] == "finished" and row["role"] == role
        and (row["method"], row["encoder"], row["setting"]) == (search.name, config.encoder, config.setting)
    ]  # fmt: skip
    if not alike:
        return cost.seconds(search.declared, steps, tested=role == "final")
    per_row = [
        row["wall_seconds"]
        - row["training_seconds"]
        + row["training_seconds"] * steps / max(1, row["steps"])
        for row in alike
    ]
    return float(median(per_row))


def _stored(trials: list[Trial], finished: set[str]) -> int:
    try:
        return sum(key(trial, download=False) in finished for trial in trials)
    except UserError:
        return 0  # a model or file is not here, so nothing of it can be in the store


def _describe(axis: Any) -> str:
    if isinstance(axis, Between):
        return f"between the two best, step {axis.step:g}"
    if isinstance(axis, Range):
        return f"{axis.low:g} to {axis.high:g}" + (", log" if axis.log else "")
    if isinstance(axis, Span):
        return f"{axis.start:g} to {axis.stop:g}, step {axis.step:g}"
    return ", ".join(map(str, axis))
