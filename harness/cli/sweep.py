"""The verbs about sweeps: `harness sweep`, `reproduce`, `plan` and `prepare`."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import completion
from harness.cli.options import PAPERS, OursOnOption
from harness.cli.sweep_options import with_sweep_options
from harness.data.hub import check_model
from harness.files import cache_folder, written_whole
from harness.targets.options import SweepOptions
from harness.targets.stores import opened

if TYPE_CHECKING:
    from harness.cli.output import Screen
    from harness.sweeps.run import SweepResult
    from harness.sweeps.spaces.search import Search
    from harness.trials.store import Store

SHOWN = (
    "targets", "set_", "encoder", "configurations", "seeds", "subsets", "published", "paper",
    "table", "store", "cpus_per_trial",
)  # fmt: skip
"""The options of a plan"""
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Print the plan and stop, as `harness plan` does.")
]


def _notice(text: str) -> None:
    from harness.cli.output import echo

    echo(text, err=True)


@with_sweep_options(
    *SHOWN, "gpus_per_trial", "memory_per_trial", "trial_timeout", "budget", "address",
    "dashboard", "track", "local",
)  # fmt: skip
def sweep(options: SweepOptions, dry_run: DryRunOption = False) -> None:
    """Search on dev, train the chosen configurations on the final seeds, and test them.

    Trials that the store has are not run again, so the same command continues an interrupted sweep.

    Example: harness sweep methods/d2cse search_spaces/unsup.yaml --encoder mini-bert
    """

    def show(result: "SweepResult") -> None:
        _print_tables(options)
        _leave_table(opened(options.store), options, result)

    _run([options], options.name, show, dry_run=dry_run)


@with_sweep_options(
    "set_", "seeds", "subsets", "store", "cpus_per_trial", "gpus_per_trial", "address", "track",
    "local",
)  # fmt: skip
def reproduce(
    options: SweepOptions,
    paper: Annotated[
        str, typer.Argument(help=f"{PAPERS}.", autocompletion=completion.papers, show_default=False)
    ],
    number: Annotated[
        int | None,
        typer.Option(
            "--table", metavar="N", min=1, help="Only the table N. Default: all of the paper."
        ),
    ] = None,
    encoder: OursOnOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Run what tables of a paper lack, print them, and say how each row compares.

    For each row: the distribution over the seeds, how likely the published number is under it,
    device, versions and protocol, and what differs from the paper's set-up. Another encoder than
    the paper's gives no verdict.

    Example: harness reproduce diffaug --table 6 --dry-run
    """
    from harness.report.papers import load_paper, paper_label  # only where a paper is named

    fillable = load_paper(paper).fillable
    numbers = fillable if number is None else [number]
    encoders = (encoder,) if encoder else ()
    targets = [replace(options, paper=paper, table=each, encoders=encoders) for each in numbers]

    def show(_: "SweepResult") -> None:
        for target in targets:
            _print_tables(target)
            _print_verdict(target)

    _run(targets, paper_label(paper), show, dry_run=dry_run)


@with_sweep_options(*SHOWN)
def plan(
    options: SweepOptions,
    device: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Price it for this device: h200, h100, a100, l40s, l4, a10, v100, t4 or cpu. "
            "Default: this machine.",
        ),
    ] = None,
    gpus: Annotated[
        int | None, typer.Option(metavar="N", help="How many of these GPUs there are.")
    ] = None,
    papers: Annotated[
        bool,
        typer.Option("--papers", help="Price all tables of the five papers, at their full size."),
    ] = False,
) -> None:
    """Show the trials of a sweep, what the store already has, and the estimated cost.

    It runs nothing. What cannot fit on the GPUs is refused.

    Example: harness plan methods/d2cse search_spaces/unsup.yaml --device h100 --gpus 8
    """
    if device is not None:  # before a space or a store is read
        from harness.sweeps.devices import check_gpus, named_device

        check_gpus(named_device(device), gpus)
    if not papers:
        _print_plan([options], device, gpus)
        return
    store = opened(options.store)
    from harness.cli.output import Screen
    from harness.sweeps.printed_plan import time_line  # after the store: see targets.stores
    from harness.targets.paper_costs import paper_plans

    console = Screen()
    console.say(
        "All tables at the full size of their corpora, the papers' values on the final seeds:"
    )
    for name, costs in paper_plans(options, store, device, gpus):
        console.say(f"{name}: {costs.trials_text}. {time_line(costs)}")


@with_sweep_options(*SHOWN, "gpus_per_trial", "address")
def prepare(options: SweepOptions) -> None:
    """Make what the trials of a sweep share, such as tokenised corpora, and run no trial.

    A sweep does this by itself. On a cluster whose machines share a folder (HARNESS_CACHE), this
    verb makes it ready beforehand.

    Example: harness prepare methods/diffaug search_spaces/semisup.yaml
    """
    options.check_encoders()
    searches = options.searches(_notice)
    _check_models(searches)
    store = opened(options.store)
    several = "es" if len(searches) > 1 else ""
    _notice(f"preparing what the trials of {len(searches)} search{several} share")
    from harness.cli.output import Screen
    from harness.sweeps.screen.live_view import publishing
    from harness.sweeps.screen.terminal import Terminal
    from harness.targets.execution import run_searches

    console = Screen()
    with publishing(store) as publish, Terminal(console, publish) as terminal:
        run_searches(searches, store, options, terminal, options.name, only_parts=True)
    if terminal.state.failed:
        raise typer.Exit(1)
    console.say(f"What the trials share is in the cache {cache_folder()}.")


def _print_plan(
    targets: Sequence[SweepOptions], device: str | None = None, gpus: int | None = None
) -> None:
    """Print the trials of the targets, and how many of the store get further suites, if any."""
    searches, store = _searches(targets), opened(targets[0].store)
    # A mistake in a name or a value was answered before these are imported.
    from harness.cli.output import Screen
    from harness.sweeps.printed_plan import plan_parts
    from harness.targets.execution import to_measure
    from harness.targets.published import lacking_suites

    # Where the output is not a terminal, rich would break the lines at 80 characters.
    console = Screen(width=None if sys.stdout.isatty() else 100)
    for part in plan_parts(searches, store, targets[0].cpus_per_trial, device, gpus):
        console.print(part, soft_wrap=isinstance(part, str))
    for target in targets:
        if lacking := lacking_suites(target.measured()):
            counts = to_measure(lacking.values())
            console.say(f"Trials of the store to measure: {counts}")


def _searches(targets: Sequence[SweepOptions]) -> "list[Search]":
    """The searches of all targets, each once."""
    searches = [search for target in targets for search in target.searches(_notice)]
    if len(targets) == 1:
        return searches
    return list({repr((search.method, search.config)): search for search in searches}.values())


def _check_models(searches: "list[Search]") -> None:
    """Raises UserError for a model that is neither here nor to be had, before a store is opened."""
    for search in searches:
        for name in search.declared.models:
            check_model(name)


def _run(
    targets: Sequence[SweepOptions],
    name: str,
    show: "Callable[[SweepResult], None]",
    *,
    dry_run: bool,
) -> None:
    """Run what the targets lack, measure further suites, and show the results.

    name: that of the sweep. It ends with exit code 1 when anything could not be done.
    """
    if dry_run:
        _print_plan(targets)
        return
    options = targets[0]
    options.check_encoders()
    searches = _searches(targets)
    if not options.of_table:
        _check_models(searches)
    store = opened(options.store)
    # A mistake in a name or a value was answered before these are imported.
    from harness.cli.output import Screen
    from harness.sweeps.screen.live_view import publishing
    from harness.sweeps.screen.terminal import Terminal
    from harness.targets.execution import measure, run_searches
    from harness.targets.published import lacking_suites, runnable

    console, runs = Screen(), runnable(searches, _notice) if options.of_table else searches
    with publishing(store) as publish, Terminal(console, publish) as terminal:
        result = run_searches(runs, store, options, terminal, name)
    lacking = lacking_suites(table for target in targets for table in target.measured())
    complete = len(runs) == len(searches)
    if lacking:
        with console.status("measuring") as status:
            complete &= measure(lacking, store, options, console.say, status.update)
    show(result)
    _end_if_incomplete(console, result, store, complete=complete)


def _print_tables(options: SweepOptions) -> None:
    """Print the results of the store, or the published table once for each encoder asked."""
    from harness.cli.table import print_table

    if not options.of_table:
        print_table(options.store)
        return
    for encoder in options.encoders or (None,):
        print_table(
            options.store, paper=options.paper, number=options.table, encoder=encoder,
            values=options.table_values(),
        )  # fmt: skip


def _leave_table(store: "Store", options: SweepOptions, result: "SweepResult") -> None:
    """Write the table of the sweep as Parquet, and print what to do next."""
    import pyarrow.parquet as pq

    from harness.cli.output import Screen
    from harness.plugin.registry import names
    from harness.report.finished_sweep import next_commands, sweep_groups, sweep_table, verdicts
    from harness.report.quantities import PAPER_COLUMNS
    from harness.trials.publishing import write_flat
    from harness.trials.schema import WITHOUT_LARGE

    reading = store.read([*dict.fromkeys((*PAPER_COLUMNS, *WITHOUT_LARGE))])
    trials = reading.table
    groups = sweep_groups(trials, result.finals)
    if not groups:
        return
    console = Screen()
    console.print("\nWhich one won:")
    for line in verdicts(groups, store.kept_pairs):
        console.say(f"  {line}")
    path = store.tables_folder / f"{options.name}.parquet"
    try:
        with written_whole(path) as file:
            pq.write_table(sweep_table(groups), file)
        write_flat(store, reading)
        console.say(f"\nThe table with each trial's scores: {path}")
        console.say(f"All trials, with a column for each value: {store.flat_file}")
    except OSError as error:  # the results are in the store, and the sweep has not failed
        console.say(f"\n{path} cannot be written ({error.strerror})")
    console.print("Next:")
    swept = options.table_options
    for purpose, command in next_commands(groups, trials, names(), store.place, swept):
        console.say(f"  # {purpose}\n  {command}")


def _print_verdict(options: SweepOptions) -> None:
    """Print the verdict on a table of scores; a table of examples has none."""
    from harness.cli.table import print_sheets
    from harness.report.coverage import SETUP_COLUMNS, verdict_table

    trials = opened(options.store).read(SETUP_COLUMNS).table
    compared = [each for each in options.compared() if each.table.kind == "scores"]
    if compared:
        typer.echo()
        print_sheets([verdict_table(each, trials) for each in compared])


def _end_if_incomplete(
    console: "Screen", result: "SweepResult", store: "Store", *, complete: bool
) -> None:
    """Print what the sweep could not do, and end with exit code 1 if there is anything.

    complete: whether all rows of a published table could be run, and all suites measured.
    """
    from harness.sweeps.budget import out_of_time

    for sentence in out_of_time(result.left_out):
        console.say(sentence)
    for label in result.undecided:
        console.print(f"No configuration of {label} finished, so none could be chosen.")
    if result.failed or result.undecided:
        console.print(
            f"Failed trials: {result.failed}. See `harness list trials`, then `harness show KEY` "
            "and `harness logs KEY`."
        )
    if unsent := store.unsent():
        console.say(
            f"Records that could not be sent to {store.place}: {unsent}. They are kept on this "
            "machine, and the same command sends them."
        )
    if result.failed or result.undecided or unsent or not complete:
        raise typer.Exit(1)
