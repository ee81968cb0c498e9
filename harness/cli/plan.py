"""`harness plan`: shows what a sweep would do."""

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from harness.cli import options
from harness.cli.targets import SweepOptions

if TYPE_CHECKING:
    from harness.sweep.plan import Plan
    from harness.sweep.resolution import Resolution
    from harness.sweep.search import Search

Said = TypeVar("Said")


def plan(
    targets: options.TargetsArgument = None,
    set_: options.SetOption = None,
    encoder: options.EncoderOption = None,
    configurations: options.ConfigurationsOption = None,
    seeds: options.SeedsOption = None,
    subsets: options.SubsetsOption = None,
    published: options.PublishedOption = False,
    paper: options.PaperOption = None,
    number: options.TableOption = None,
    store: options.StoreOption = None,
    cpus_per_trial: options.CpusOption = 1,
) -> None:
    """Show the trials of a sweep, what the store already has, and the estimated cost.

    It runs nothing.

    Example: harness plan methods/d2cse search_spaces/unsup.yaml
    """
    chosen = SweepOptions(
        targets or [],
        set_,
        encoder,
        configurations,
        seeds,
        subsets,
        published,
        paper,
        number,
        store,
    )
    print_plan(chosen.searches(), store, cpus_per_trial)


def print_plan(searches: "list[Search]", store: str | None, cpus_per_trial: float) -> None:
    """Print the plan of the searches.

    `cpus_per_trial`: CPU cores of one trial, for the estimate of the time.
    """
    import sys

    from rich import box
    from rich.console import Console
    from rich.table import Table

    from harness.sweep.plan import plan_sweep
    from harness.sweep.resolution import resolution
    from harness.sweep.search import implied

    made = plan_sweep(searches, options.opened(store))
    # Where the output is not a terminal, rich would break the lines at 80 characters.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 140)
    table = Table(box=box.SIMPLE_HEAD)
    for column in ("search", "round", "varied"):
        table.add_column(column)
    for column in ("trials", "stored", "steps", "each"):
        table.add_column(column, justify="right")
    shown = [*implied(searches), *searches]
    for title, rows in _together(shown, [_cells(made, search) for search in shown]):
        for place, cells in enumerate(rows):
            table.add_row("" if place else title, *cells)
    console.print(table)
    for title, values in _together(shown, [_given(search) for search in shown]):
        if values:
            console.print(f"{title}: {values}", soft_wrap=True, markup=False)
    console.print(f"\n{made.to_run} trials to run{_cost(made, cpus_per_trial)}")
    if found := resolution(searches, options.opened(store)):
        console.print(_resolved(found), soft_wrap=True, markup=False)
    for sentence in _missing(made.missing):
        console.print(sentence, soft_wrap=True, markup=False)


def _cost(made: "Plan", cpus_per_trial: float) -> str:
    """The steps and the time of the trials to run, as the end of a sentence."""
    import os

    import torch

    from harness.sweep.live_view import duration

    steps = "" if made.steps is None else f", {made.steps:,} steps"
    if made.seconds is None:
        return f"{steps}; estimated time: unknown (an encoder or a corpus is not on this machine)"
    gpus = torch.cuda.device_count()
    slots = gpus or max(1, int((os.cpu_count() or 1) / cpus_per_trial))
    hours = f"{made.seconds / 3600:.1f} {'GPU' if gpus else 'CPU'} hours"
    time = f"about {duration(made.seconds / slots)} ({hours})"
    return f"{steps}; estimated time with {slots} at a time: {time}"


def _cells(made: "Plan", search: "Search") -> list[list[str]]:
    """The rows of a search without its name, one for each round and one for the final seeds."""
    from harness.sweep.live_view import duration

    return [
        [
            line.round,
            "\n".join(f"{name}: {value}" for name, value in line.varied.items()),
            "not known yet" if line.trials is None else str(line.trials),
            str(line.stored),
            "?" if line.steps is None else str(line.steps),
            "?" if line.seconds is None else duration(line.seconds),
        ]
        for line in made.lines
        if line.search == search.label
    ]


def _given(search: "Search") -> str:
    """What differs from the published values in the configuration that a search starts from."""
    from harness.plugin import registry
    from harness.trials.given_values import given_values

    values = given_values(registry.load(search.method), search.config)
    return ", ".join(f"{name}={value}" for name, value in values.items() if name != "setting")


def _together(searches: "list[Search]", said: list[Said]) -> list[tuple[str, Said]]:
    """What is said of each search, once for searches that differ in nothing but the encoder."""
    encoders: dict[tuple[str, str, str], list[str]] = {}
    known: dict[tuple[str, str, str], Said] = {}
    for search, each in zip(searches, said, strict=True):
        encoder = Path(search.config.encoder).name
        before, _, after = search.label.partition(encoder)
        same = (before, after, str(each))
        encoders.setdefault(same, []).append(encoder)
        known[same] = each
    return [
        (f"{before}{', '.join(names)}{after}", known[before, after, text])
        for (before, after, text), names in encoders.items()
    ]


def _resolved(found: "Resolution") -> str:
    """What the final seeds resolve, as a sentence."""
    from harness.sweep.resolution import POWER, SIGNIFICANCE

    whence = f"over the store's {found.groups} groups" if found.groups else "a typical one"
    return (
        f"{found.repeats} final seeds or subsets resolve a difference of {found.difference:.2f} "
        f"points of {found.metric} between two methods ({POWER:.0%} power, two-sided t test at "
        f"{SIGNIFICANCE:.0%}, standard deviation {found.std:.2f}, {whence})"
    ).replace("%", " %")


def _missing(sentences: list[str]) -> list[str]:
    """The sentences about what is not here; what they say alike is said once."""
    names = [sentence.partition(" was not found: ") for sentence in sentences]
    alike = [name for name, found, _ in names if found]
    others = [
        f"Not here yet: {sentence}" for sentence in sentences if "was not found" not in sentence
    ]
    if not alike:
        return others
    return [f"Not here yet: {', '.join(alike)}; {names[0][2]}", *others]
