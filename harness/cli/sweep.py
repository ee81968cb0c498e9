"""`harness sweep`: run a search space."""

from typing import Annotated

import typer

from harness.cli import options
from harness.cli.plan import print_plan
from harness.cli.table import table


def sweep(
    targets: options.TargetsArgument,
    set_: options.SetOption = None,
    encoder: options.EncoderOption = None,
    configurations: options.ConfigurationsOption = None,
    seeds: options.SeedsOption = None,
    subsets: options.SubsetsOption = None,
    store: options.StoreOption = None,
    cpus_per_trial: options.CpusOption = 1,
    gpus_per_trial: options.GpusOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan and stop, as `harness plan` does.")
    ] = False,
) -> None:
    """Run a search space: search on dev, train the chosen configuration on the final seeds, test it.

    What the store has is not run again, so the same command goes on where an interrupted one
    stopped.

    Example: harness sweep methods/d2cse search_spaces/unsup.yaml --encoder mini-bert
    """
    chosen = options.SweepOptions(targets, set_, encoder, configurations, seeds, subsets)
    searches = chosen.searches()
    if dry_run:
        print_plan(searches, store, cpus_per_trial)
        return
    from rich.console import Console

    from harness.sweep.driver import run_sweep
    from harness.sweep.ray_engine import Resources
    from harness.sweep.terminal import Terminal

    console = Console(highlight=False)
    resources = Resources(cpus_per_trial, gpus_per_trial)
    with Terminal(console) as terminal:
        result = run_sweep(searches, options.opened(store), resources, terminal)
    table(store=store)
    for label in result.undecided:
        console.print(f"No configuration of {label} finished, so none could be chosen.")
    if result.failed or result.undecided:
        console.print(
            f"Failed trials: {result.failed}. See `harness list trials`, then `harness show KEY`."
        )
        raise typer.Exit(1)
