"""The plan of a sweep as it is shown: trials, what the store already has, estimated cost."""

import os
from collections.abc import Iterator, Mapping

from rich.table import Table

from harness.data.revisions import short_name
from harness.errors import UserError
from harness.plugin import registry
from harness.plugin.resolution import given_values
from harness.sweeps.machines import this_machine
from harness.sweeps.memory import check_fits, largest_room
from harness.sweeps.plan import Plan, PlanLine, plan_sweep
from harness.sweeps.resolution import POWER, SIGNIFICANCE, Resolution, resolution
from harness.sweeps.screen.live_view import duration
from harness.sweeps.spaces.search import Search, implied
from harness.trials.record import four_digits
from harness.trials.store import Store

WIDTHS = {"trials": 6, "stored": 6, "steps": 7, "each": 8, "GiB": 5}
"""Columns of numbers and their widths"""
MEMORY = "GiB: what each worker of a trial needs at least; activations come on top"
NOT_FOUND = " was not found: "
"""What stands in the sentence about a missing file behind its name"""


def plan_parts(
    searches: list[Search], store: Store, cpus_per_trial: float
) -> Iterator[Table | str]:
    """The tables and sentences of the plan of the searches.

    `cpus_per_trial`: CPU cores of one trial, for the estimate of the time. Raises UserError for a
    trial that no GPU of this machine can hold.
    """
    made = plan_sweep(searches, store)
    shown = [*implied(searches), *searches]
    too_large = _too_large(shown, made)
    yield from _tables(shown, made)
    given = {search.label: _given(search) for search in shown}
    for name, encoders, labels in _together(shown, given):
        if values := given[labels[0]]:
            yield f"{name} on {', '.join(encoders)}: {values}"
    yield f"\n{made.to_run} trials to run{_cost(made, cpus_per_trial)}"
    yield MEMORY
    if too_large:
        yield f"Too large for this machine: {too_large}"
    if resolved := resolution(searches, store):
        yield _resolved(resolved)
    yield from _missing(made.missing)


def _too_large(searches: list[Search], made: Plan) -> str | None:
    """Why the first trial that does not fit cannot run here; None: as far as is known, all fit.

    Raises UserError when this machine has GPUs. Without them, it may be planning for others.
    """
    machine = this_machine()
    on_gpu = bool(machine.gpus)
    room = largest_room([machine], on_gpu=on_gpu, limit=None)
    for search in searches:
        if room and any((line.memory or 0) > room.size for line in made.of(search.label)):
            try:
                for trial in search.known_trials():
                    check_fits(trial, room)
            except UserError as error:
                if on_gpu:
                    raise
                return str(error)
    return None


def _cost(made: Plan, cpus_per_trial: float) -> str:
    """The steps and the time of the trials to run, as the end of a sentence."""
    bound = "at most " if any(line.at_most and line.to_run for line in made.lines) else ""
    steps = "" if made.steps is None else f", {bound}{made.steps:,} steps"
    if made.seconds is None:
        return f"{steps}; estimated time: unknown (a model or a corpus is not here)"
    gpus = len(this_machine().gpus)
    slots = gpus or max(1, int((os.cpu_count() or 1) / cpus_per_trial))
    hours = f"{made.seconds / 3600:.1f} {'GPU' if gpus else 'CPU'} hours"
    time = f"about {duration(made.seconds / slots)} ({hours})"
    return f"{steps}; estimated time with {slots} at a time: {time}"


def _tables(searches: list[Search], made: Plan) -> Iterator[Table | str]:
    """For each group of encoders its names, and a table of what is run on them."""
    lines = {search.label: made.of(search.label) for search in searches}
    rounds = {
        label: str([(line.round, line.varied) for line in each]) for label, each in lines.items()
    }
    on: dict[str, list[tuple[str, list[str]]]] = {}
    for name, encoders, labels in _together(searches, rounds):
        on.setdefault(", ".join(encoders), []).append((name, labels))
    for number, (names, found) in enumerate(on.items()):
        yield f"On {names}:"
        table = Table(box=None, pad_edge=False, expand=True, show_header=number == 0)
        table.add_column("search", max_width=24)
        table.add_column("round")
        table.add_column("varied", ratio=1, overflow="fold")
        for column, width in WIDTHS.items():
            table.add_column(column, justify="right", width=width)
        for name, labels in found:
            for place, same in enumerate(zip(*(lines[label] for label in labels), strict=True)):
                values = "; ".join(f"{key}: {value}" for key, value in same[0].varied.items())
                table.add_row("" if place else name, same[0].round, values, *_numbers(same))
        yield table


def _numbers(lines: tuple[PlanLine, ...]) -> tuple[str, ...]:
    """The trials of searches that differ in the encoder, those stored, and the cost of one.

    Of several encoders, the cost is that of the largest.
    """
    trials = [line.trials for line in lines if line.trials is not None]
    steps = [line.steps for line in lines if line.steps is not None]
    seconds = [line.seconds for line in lines if line.seconds is not None]
    memory = [line.memory for line in lines if line.memory is not None]
    early = any(line.at_most for line in lines)
    return (
        str(sum(trials)) if len(trials) == len(lines) else "?",
        str(sum(line.stored for line in lines)),
        f"{'≤' if early or len({*steps}) > 1 else ''}{max(steps)}" if steps else "?",
        f"{'≤' if early or len({*seconds}) > 1 else ''}{_short(max(seconds))}" if seconds else "?",
        _gib(max(memory)) if memory else "?",
    )


def _short(seconds: float) -> str:
    """A rough duration in few characters."""
    hours = seconds / 3600
    if hours >= 1:
        return f"{hours:.1f} h" if hours < 100 else f"{hours:.0f} h"
    return f"{seconds / 60:.0f} min" if seconds >= 60 else f"{seconds:.0f} s"


def _gib(size: int) -> str:
    """Bytes in GiB, in few characters."""
    found = size / 2**30
    return f"{found:.1f}" if found >= 0.1 else "<0.1"


def _given(search: Search) -> str:
    """What differs from the published values in the configuration that a search starts from."""
    values = given_values(registry.load(search.method), search.config)
    values.pop("setting", None)
    return ", ".join(f"{name}={four_digits(value)}" for name, value in values.items())


def _together(
    searches: list[Search], said: Mapping[str, str]
) -> list[tuple[str, list[str], list[str]]]:
    """The searches that differ in the encoder alone: their name, their encoders, their labels.

    said: label -> what is said of the search, which must be the same.
    """
    alike: dict[tuple[str, str], dict[str, str]] = {}
    for search in searches:
        encoder = short_name(search.config.encoder)
        before, _, after = search.label.partition(encoder)
        name = f"{before.strip()}{after}"
        alike.setdefault((name, said[search.label]), {})[encoder] = search.label
    return [(name, list(found), list(found.values())) for (name, _), found in alike.items()]


def _resolved(found: Resolution) -> str:
    """What the final seeds resolve, as a sentence."""
    whence = f"over the store's {found.groups} groups" if found.groups else "a typical one"
    return (
        f"{found.repeats} final seeds or subsets resolve a difference of {found.difference:.2f} "
        f"points of {found.metric} between two methods ({POWER:.0%} power, two-sided t test at "
        f"{SIGNIFICANCE:.0%}, standard deviation {found.std:.2f}, {whence})"
    ).replace("%", " %")


def _missing(sentences: list[str]) -> list[str]:
    """The sentences about what is not here; several models or files share one."""
    names = [name for name, found, _ in (each.partition(NOT_FOUND) for each in sentences) if found]
    if len(names) < 2:
        return [f"Not here yet: {sentence}" for sentence in sentences]
    others = [f"Not here yet: {each}" for each in sentences if NOT_FOUND not in each]
    return [
        f"Not here yet: {', '.join(names)}. Set HARNESS_HUB to a folder that has them, or connect "
        f"to the Hub.",
        *others,
    ]
