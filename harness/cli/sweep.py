"""`harness sweep`: run a search space."""

from typing import Annotated

import typer

from harness.cli import options
from harness.cli.plan import plan
from harness.cli.table import table


def sweep(
    targets: options.Targets,
    set_: options.Set = None,
    encoder: options.Encoder = None,
    trials: options.Trials = None,
    seeds: options.Seeds = None,
    subsets: options.Subsets = None,
    store: options.Store = None,
    cpus_per_trial: options.Cpus = 1,
    gpus_per_trial: options.Gpus = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan and stop, as `harness plan`.")
    ] = False,
) -> None:
    """Run a search space: search on dev, retrain the chosen configuration on the final seeds, score it on test.

    What the store has is not run again, so the same command goes on where an interrupted one stopped.

    Example: harness sweep methods/d2cse search_spaces/unsup.yaml --encoder mini-bert --trials 4 --set max_steps=250
    """
    if dry_run:
        plan(targets, set_, encoder, trials, seeds, subsets, store, cpus_per_trial)
        return
    from rich.console import Console

    from harness.sweep.driver import driver as sweeping
    from harness.sweep.ray_engine import Resources
    from harness.sweep.terminal import Terminal

    searches = options.searches(targets, set_, encoder, trials, seeds, subsets)
    console = Console(highlight=False)
    with Terminal(console) as terminal:
        result = sweeping.run(
            searches, options.opened(store), Resources(cpus_per_trial, gpus_per_trial), terminal
        )
    table(store=store)
    for label in result.undecided:
        console.print(f"No configuration of {label} finished, so none could be chosen.")
    if result.failed or result.undecided:
        console.print(
            f"Failed trials: {result.failed}. See `harness list trials`, then `harness show KEY`."
        )
        raise typer.Exit(1)
