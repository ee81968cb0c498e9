"""`harness plan`: shows what a sweep would do."""

from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli import options

if TYPE_CHECKING:
    from harness.sweep.plan import PlanLine
    from harness.sweep.search import Search


def plan(
    targets: options.TargetsArgument,
    set_: options.SetOption = None,
    encoder: options.EncoderOption = None,
    configurations: options.ConfigurationsOption = None,
    seeds: options.SeedsOption = None,
    subsets: options.SubsetsOption = None,
    store: options.StoreOption = None,
    cpus_per_trial: options.CpusOption = 1,
) -> None:
    """Show the trials of a sweep, what the store already has, and the estimated cost.

    It runs nothing.

    Example: harness plan methods/d2cse search_spaces/unsup.yaml
    """
    chosen = options.SweepOptions(targets, set_, encoder, configurations, seeds, subsets)
    print_plan(chosen.searches(), store, cpus_per_trial)


def print_plan(searches: "list[Search]", store: Path | None, cpus_per_trial: float) -> None:
    """Print the plan of the searches.

    `cpus_per_trial`: CPU cores of one trial, for the estimate of the time.
    """
    import os
    import sys

    from rich import box
    from rich.console import Console
    from rich.table import Table

    from harness.sweep.live_view import duration
    from harness.sweep.plan import plan_sweep

    made = plan_sweep(searches, options.opened(store))
    # Where the output is not a terminal, rich would break the lines at 80 characters.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 140)
    table = Table(box=box.SIMPLE_HEAD)
    for column in ("search", "round", "varied"):
        table.add_column(column)
    for column in ("trials", "stored", "steps", "each"):
        table.add_column(column, justify="right")
    for line in made.lines:
        table.add_row(*_cells(line))
    console.print(table)
    for search in searches:
        values = _values(search.config.model_dump())
        console.print(f"{search.label}: {values}", soft_wrap=True, markup=False)
    slots = max(1, int((os.cpu_count() or 1) / cpus_per_trial))
    seconds = made.seconds(slots)
    cost = "unknown (an encoder or a corpus is not on this machine)"
    if seconds is not None:
        cost = f"about {duration(seconds)}"
    console.print(f"\n{made.to_run} trials to run; estimated time with {slots} at a time: {cost}")
    for sentence in made.missing:
        console.print(f"Not here yet: {sentence}", soft_wrap=True, markup=False)


def _cells(line: "PlanLine") -> list[str]:
    from harness.sweep.live_view import duration

    return [
        line.search,
        line.round,
        "\n".join(f"{name}: {value}" for name, value in line.varied.items()),
        "the round before decides" if line.trials is None else str(line.trials),
        str(line.stored),
        "?" if line.steps is None else str(line.steps),
        "?" if line.seconds is None else duration(line.seconds),
    ]


def _values(values: dict[str, object]) -> str:
    shown = {name: value for name, value in values.items() if name not in ("setting", "encoder")}
    return ", ".join(f"{name}={value}" for name, value in shown.items())
