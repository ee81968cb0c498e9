"""`harness reproduce`: runs what tables of a paper lack, prints them, and gives a verdict."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import options
from harness.cli.output import Screen, echo
from harness.cli.sweeping import Means, print_problems, run_searches
from harness.cli.table import print_filled, width_of
from harness.cli.targets import SweepOptions
from harness.report.published import load_paper

if TYPE_CHECKING:
    from harness.sweeps.spaces.search import Search


def reproduce(
    paper: Annotated[
        str, typer.Argument(help="clsr, d2cse, dcpcse, diffaug or diffcse.", show_default=False)
    ],
    number: Annotated[
        int | None,
        typer.Option("--table", metavar="N", min=1, help="Only the table N. Default: all tables."),
    ] = None,
    set_: options.SetOption = None,
    encoder: Annotated[
        str | None,
        typer.Option(help="An encoder to use in the place of the paper's; it gives no verdict."),
    ] = None,
    seeds: options.SeedsOption = None,
    subsets: options.SubsetsOption = None,
    store: options.StoreOption = None,
    cpus_per_trial: options.CpusOption = 1,
    gpus_per_trial: options.GpusOption = None,
    address: options.AddressOption = None,
    track: options.TrackOption = None,
    local: options.LocalOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan and stop, as `harness plan` does.")
    ] = False,
) -> None:
    """Run what tables of a paper lack, print them, and say how each row compares.

    For each row: the distribution over the seeds, how likely the published number is under it,
    device, versions and protocol, and what differs from the paper's set-up.

    Example: harness reproduce diffaug --table 6 --dry-run
    """
    encoders = [encoder] if encoder else None
    targets = [
        SweepOptions([], set_, encoders, None, seeds, subsets, False, paper, each, store)
        for each in _numbers(paper, number)
    ]
    means = Means(cpus_per_trial, gpus_per_trial, address=address, track=track, local=local)
    means.check()
    searches = _searches(targets)
    console, found = Screen(), options.opened(store)
    # A mistake in a name or a value was answered before these are imported.
    from harness.cli.paper_suites import announce, lacking_suites, measure
    from harness.cli.paper_target import runnable

    if dry_run:
        from harness.cli.printed_plan import print_plan

        print_plan(searches, found, cpus_per_trial)
        for each in targets:
            announce(each)
        return
    runs = runnable(searches)
    result = run_searches(runs, found, means, console, paper)
    tables = [compared for each in targets for compared in each.measured()]
    measured = measure(lacking_suites(tables), found, means, console)
    for each in targets:
        print_filled(paper, int(each.table or 0), encoder, store, options.table_values(set_))
        _print_verdict(each)
    complete = measured and len(runs) == len(searches)
    print_problems(console, result, found, complete=complete)


def _numbers(paper: str, number: int | None) -> list[int]:
    """The number of the table, or of all tables of a paper that trials can fill."""
    if number is not None:
        return [number]
    found = load_paper(paper)
    return [
        int(each)
        for each, name in found.numbers.items()
        if found.tables[name].kind != "hyperparameters"
    ]


def _searches(targets: list[SweepOptions]) -> "list[Search]":
    """The searches of all tables, each once."""
    found = {
        repr((search.method, search.config)): search
        for each in targets
        for search in each.searches()
    }
    return list(found.values())


def _print_verdict(target: SweepOptions) -> None:
    """Print the verdict on a table of scores; a table of examples has none."""

    from harness.report.formats import rendered
    from harness.report.reproduction import SETUP_COLUMNS, verdict_table

    trials = options.opened(target.store).read(SETUP_COLUMNS).table
    sheets = [
        verdict_table(compared, trials)
        for compared in target.compared()
        if compared.table.kind == "scores"
    ]
    if not sheets:
        return
    to_screen = sys.stdout.isatty()
    width = width_of(to_screen=to_screen)
    echo("")
    typer.echo(rendered(sheets, "terminal", width, bold=to_screen).decode(), nl=False)
