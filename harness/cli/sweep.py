"""`harness sweep`: runs a search space."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from harness.cli import options
from harness.cli.output import Screen
from harness.cli.sweeping import Means, print_problems, run_searches
from harness.cli.table import print_filled, table
from harness.cli.targets import SweepOptions
from harness.files import written_whole
from harness.inputs import finite

if TYPE_CHECKING:
    from harness.sweeps.run import SweepResult
    from harness.trials.store import Store


def sweep(
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
    gpus_per_trial: options.GpusOption = None,
    memory_per_trial: Annotated[
        float | None,
        typer.Option(
            min=0.1,
            callback=finite,
            metavar="GIB",
            help="Host memory of one trial in GiB; a trial that takes more fails. Default: what "
            "the machine has.",
        ),
    ] = None,
    trial_timeout: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="The longest that one trial may take, such as 90s, 30m or 2h; a trial that takes "
            "longer fails.",
        ),
    ] = None,
    address: options.AddressOption = None,
    dashboard: Annotated[
        bool | None,
        typer.Option(
            "--dashboard/--no-dashboard",
            help="Show the trials in Ray's dashboard, and print its address. Default: only on a "
            "cluster.",
        ),
    ] = None,
    track: options.TrackOption = None,
    local: options.LocalOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan and stop, as `harness plan` does.")
    ] = False,
) -> None:
    """Search on dev, train the chosen configurations on the final seeds, and test them.

    Trials that the store has are not run again, so the same command continues an interrupted sweep.

    Example: harness sweep methods/d2cse search_spaces/unsup.yaml --encoder mini-bert
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
    means = Means(
        cpus_per_trial, gpus_per_trial, memory_per_trial, trial_timeout, address, dashboard, track,
        local,
    )  # fmt: skip
    means.check()
    searches = chosen.searches()
    console, found = Screen(), options.opened(store)
    # A mistake in a name or a value was answered before these are imported.
    from harness.cli.paper_suites import announce, lacking_suites, measure
    from harness.cli.paper_target import runnable

    if dry_run:
        from harness.cli.printed_plan import print_plan

        print_plan(searches, found, cpus_per_trial)
        announce(chosen)
        return
    runs = runnable(searches) if chosen.of_table else searches
    result = run_searches(runs, found, means, console, chosen.name)
    measured = measure(lacking_suites(chosen.measured()), found, means, console)
    if chosen.of_table:
        for each in encoder or (None,):
            print_filled(str(paper), int(number or 0), each, store, options.table_values(set_))
    else:
        table(store=store)
    _leave_table(console, found, chosen.name, result)
    complete = measured and len(runs) == len(searches)
    print_problems(console, result, found, complete=complete)


def _leave_table(console: Console, store: "Store", space: str, result: "SweepResult") -> None:
    """Write the table of the sweep as Parquet, and print what to do next."""
    import pyarrow.parquet as pq

    from harness.plugin.registry import names
    from harness.report.finished_sweep import next_commands, sweep_groups, sweep_table, verdicts
    from harness.report.quantities import PAPER_COLUMNS
    from harness.trials.flat import write_flat

    trials = store.read(PAPER_COLUMNS).table
    groups = sweep_groups(trials, result.finals)
    if not groups:
        return
    console.print("\nWhich one won:")
    for line in verdicts(groups, store.kept_pairs):
        console.print(f"  {line}", soft_wrap=True)
    path = store.tables_folder / f"{space}.parquet"
    try:
        with written_whole(path) as file:
            pq.write_table(sweep_table(groups), file)
        write_flat(store)
        console.print(f"\nThe table with each trial's scores: {path}", soft_wrap=True)
        console.print(
            f"All trials, with a column for each value: {store.flat_file}", soft_wrap=True
        )
    except OSError as error:  # the results are in the store, and the sweep has not failed
        console.print(f"\n{path} cannot be written ({error.strerror})", soft_wrap=True)
    console.print("Next:")
    for purpose, command in next_commands(groups, trials, names(), store.place):
        console.print(f"  # {purpose}\n  {command}", soft_wrap=True)
