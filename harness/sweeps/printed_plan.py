"""The plan of a sweep as it is shown: what is missing, trials, what the store has, the cost."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from rich.table import Table

from harness.data.hub import model_shape
from harness.errors import NotHere, UserError, counted
from harness.plugin import registry
from harness.plugin.resolution import given_values
from harness.sweeps.devices import Bounds, joined
from harness.sweeps.machines import Gpu, Machine, this_machine
from harness.sweeps.memory import check_fits, engine_of, largest_room, least_memory
from harness.sweeps.plan import Plan, PlanLine, plan_sweep
from harness.sweeps.scored import POWER, SIGNIFICANCE, Resolution, resolution
from harness.sweeps.spaces.search import Search, implied
from harness.trials.record import four_digits
from harness.trials.store import Store

WIDTHS = {"trials": 6, "stored": 6, "steps": 9, "each": 7, "GiB": 4}
"""Columns of numbers and their widths"""
MEMORY = "GiB: what each worker of a trial needs at least; activations come on top"
NOT_FOUND = " was not found: "
"""Words behind the name in the sentence about a missing file"""
SHORT, NIGHT, LONG = 6 * 3600, 10 * 3600, 86400
"""Seconds for which no GPU is named, those of a night, and those from which on a smaller encoder is
proposed"""
MOST_GPUS = 64
"""GPUs beyond which nobody is told to take more"""
REHEARSAL = ("mini-bert", "tiny-bert")
"""Encoders for a rehearsal; the second one comes with harness"""


def plan_parts(
    searches: list[Search],
    store: Store,
    cpus_per_trial: float,
    device: str | None = None,
    gpus: int | None = None,
) -> Iterator[Table | str]:
    """The tables and sentences of the plan of the searches.

    The arguments are those of `plan_sweep`. Raises UserError for a trial that no GPU of this
    machine can hold, or not the device that was named.
    """
    made = plan_sweep(searches, store, device=device, gpus=gpus, cpus_per_trial=cpus_per_trial)
    shown = [*implied(searches), *searches]
    too_large = _too_large(shown, made, named=device is not None)
    yield from _missing(made.missing)
    if made.stand_ins:
        yield f"Smaller than the paper's: {'; '.join(made.stand_ins)}."
    yield from _tables(shown, made)
    details = {search.label: _given(search) for search in shown}
    for name, encoders, labels in _together(shown, details):
        if values := details[labels[0]]:
            yield f"{name} on {', '.join(encoders)}: {values}"
    open_rounds = any(not line.decided for line in made.lines)
    why = ", as scores of earlier rounds decide" if open_rounds else ""
    steps = f", {made.whole.steps.shown()} steps{why}" if made.whole.steps.known else ""
    yield f"\n{made.trials_text}{steps}"
    yield MEMORY
    if most := max(map(_offloaded, shown), default=0):
        has = this_machine().memory_bytes
        less = f"; this machine has {_gib(has)} GiB" if 0 < has < most else ""
        yield f"Offloaded: at least {_gib(most)} GiB of host memory for a trial's workers{less}"
    if too_large:
        yield f"Too large for this machine: {too_large}"
    if resolved := resolution(searches, store):
        yield _resolved(resolved)
    yield time_line(made)


def _too_large(searches: list[Search], made: Plan, *, named: bool) -> str | None:
    """Why the first trial that does not fit cannot run; None: as far as is known, all fit.

    Raises UserError where it is on GPUs. Without them, this machine may be planning for others.
    """
    machine, device = this_machine(), made.device
    if named and device is not None:
        gpu = Gpu(device.title, int(device.memory * 1024))
        machine = Machine(machine.memory_bytes, (gpu,) if device.is_gpu else ())
    on_gpu = bool(machine.gpus)
    if on_gpu:  # the workers of a trial may offload to the memory of several machines
        machine = replace(machine, memory_bytes=0)
    room = largest_room([machine], on_gpu=on_gpu, limit=None)
    for search in searches:
        large = room and any((line.memory or 0) > room.size for line in made.of(search.label))
        if large or (not on_gpu and _offloaded(search)):
            try:
                for trial in search.known_trials():
                    check_fits(trial, room)
            except UserError as error:
                if on_gpu:
                    raise
                return str(error)
    return None


def _offloaded(search: Search) -> int:
    """Bytes of host memory that all workers of a trial offload to; 0 where that is not known."""
    try:
        several = least_memory(search.declared)
    except UserError:
        return 0
    return engine_of(search.declared).workers * max(least.offloaded for least in several)


def time_line(made: Plan) -> str:
    """The time that it takes, in one line for people."""
    if made.device is None:
        return "Time: unknown for this GPU, of which harness has no data sheet; name one (--device)"
    whole = made.whole
    if not whole.seconds.known:
        return "Time: unknown, because a model or a corpus is not here"
    if whole.seconds.most == 0:
        return "Time: none, the store has all of it"
    source = "as the store's trials took" if made.measured else "an estimate"
    seconds = {made.device: whole.seconds}
    if made.other is not None and made.other.is_gpu != made.device.is_gpu:
        seconds[made.other] = whole.elsewhere
    parts = []
    for device in sorted(seconds, key=lambda each: not each.is_gpu):
        asked = device is made.device
        if device.is_gpu:
            parts.append(_gpu_time(seconds[device], device.title, made.slots if asked else 1))
            continue
        together = seconds[device].times(1 / made.cores)
        if asked and together.most < SHORT:  # nobody needs a GPU for it
            parts.clear()
        parts.append(f"on this machine {together.shown(_duration)}{_rehearsal(together)}")
    return f"Time ({source}): {'; '.join(parts)}"


def _gpu_time(seconds: Bounds, title: str, gpus: int) -> str:
    """The time on GPUs, and how many make a night of it."""
    text = f"{seconds.times(1 / 3600).shown(_hours)} GPU hours on one {title}"
    if gpus > 1:
        return f"{text}, {seconds.times(1 / gpus).shown(_duration)} on {gpus}"
    needed = math.ceil(seconds.middle / NIGHT)
    return f"{text}, a night on {needed}" if 1 < needed <= MOST_GPUS else text


def _rehearsal(seconds: Bounds) -> str:
    """Advice where a machine would take days."""
    if seconds.middle < LONG:
        return ""
    for name in REHEARSAL:
        try:
            model_shape(name, download=False)
        except NotHere:
            continue
        return f": use `--encoder {name}` to rehearse"
    return ""


def _hours(hours: float) -> str:
    return f"{hours:.2g}" if hours < 10 else f"{hours:,.0f}"


def _rough(seconds: float, names: Sequence[str], least: float) -> str:
    """A duration in the largest unit of which it has at least so many, with the name behind it."""
    for name, size in zip(names, (365.25 * 86400, 86400.0, 3600.0, 60.0), strict=False):
        if seconds >= least * size:
            return f"{seconds / size:,.0f}{name}"
    return f"{seconds:.0f}{names[-1]}"


def _duration(seconds: float) -> str:
    """A rough duration in few words."""
    return _rough(seconds, (" years", " days", " h", " min", " s"), 2)


def _tables(searches: list[Search], made: Plan) -> Iterator[Table | str]:
    """For each group of encoders its names, and a table of what is run on them."""
    lines = {search.label: made.of(search.label) for search in searches}
    rounds = {
        label: str([(line.round, line.varied) for line in each]) for label, each in lines.items()
    }
    on: dict[str, list[tuple[str, list[str]]]] = {}
    for name, encoders, labels in _together(searches, rounds):
        on.setdefault(", ".join(encoders), []).append((name, labels))
    for number, (names, alike) in enumerate(on.items()):
        yield f"On {names}:"
        table = Table(box=None, pad_edge=False, expand=True, show_header=number == 0)
        table.add_column("search", max_width=24)
        table.add_column("round")
        table.add_column("varied", ratio=1, overflow="fold")
        for column, width in WIDTHS.items():
            table.add_column(column, justify="right", width=width)
        for name, labels in alike:
            for place, same in enumerate(zip(*(lines[label] for label in labels), strict=True)):
                values = "; ".join(f"{key}: {value}" for key, value in same[0].varied.items())
                table.add_row("" if place else name, same[0].round, values, *_numbers(same))
        yield table


def _numbers(lines: Sequence[PlanLine]) -> tuple[str, ...]:
    """The trials of searches that differ in the encoder, those stored, and the cost of one."""
    trials = [line.trials for line in lines if line.trials is not None]
    most = sum(line.stored + (line.at_most or 0) for line in lines)
    limited = all(line.at_most is not None for line in lines)
    steps = [line.each.steps for line in lines if line.each.steps.known]
    seconds = [line.each.seconds for line in lines if line.each.seconds.known]
    memory = [line.memory for line in lines if line.memory is not None]
    return (
        str(sum(trials)) if len(trials) == len(lines) else f"≤{most}" if limited else "?",
        str(sum(line.stored for line in lines)),
        _narrow(steps, _few_digits),
        _narrow(seconds, _short),
        _gib(max(memory)) if memory else "?",
    )


def _narrow(several: Sequence[Bounds], text: Callable[[float], str]) -> str:
    """From the least to the most of several lines, in few characters."""
    return joined(several).shown(text).replace(" to ", "-") if several else "?"


def _few_digits(number: float) -> str:
    """A number of steps in few characters."""
    if number < 10_000:
        return str(round(number))
    return f"{number / 1000:.0f}k" if number < 999_500 else f"{number / 1e6:.1f}M"


def _short(seconds: float) -> str:
    """A rough duration in few characters."""
    return _rough(seconds, ("y", "d", "h", "m", "s"), 1.5)


def _gib(size: int) -> str:
    """Bytes in GiB, in few characters."""
    amount = size / 2**30
    return f"{amount:.1f}" if amount >= 0.1 else "<0.1"


def _given(search: Search) -> str:
    """The differences from the published values of the configuration that a search starts from."""
    values = given_values(registry.load(search.method), search.config)
    values.pop("setting", None)
    return ", ".join(f"{name}={four_digits(value)}" for name, value in values.items())


def _together(
    searches: list[Search], details: Mapping[str, str]
) -> list[tuple[str, list[str], list[str]]]:
    """The searches that differ in the encoder alone: their name, their encoders, their labels.

    details: label -> what is said of the search, which must be the same.
    """
    alike: dict[tuple[str, str], dict[str, str]] = {}
    for search in searches:
        before, _, after = search.label.partition(search.encoder)
        name = f"{before.strip()}{after}"
        alike.setdefault((name, details[search.label]), {})[search.encoder] = search.label
    return [(name, list(found), list(found.values())) for (name, _), found in alike.items()]


def _resolved(shown: Resolution) -> str:
    """The difference that the final seeds resolve, as a sentence."""
    whence = (
        f"over {counted(shown.groups, 'group')} of the store" if shown.groups else "a typical one"
    )
    return (
        f"{shown.repeats} final seeds or subsets resolve a difference of {shown.difference:.2f} "
        f"points of {shown.metric} between two methods ({POWER:.0%} power, two-sided t test at "
        f"{SIGNIFICANCE:.0%}, standard deviation {shown.std:.2f}, {whence})"
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
