"""The verbs about whole stores: `harness clean`, `merge` and `publish`."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.filesize import decimal
from rich.table import Table

from harness.cli import options
from harness.cli.output import Screen, echo
from harness.cli.progress import working
from harness.errors import UserError, counted, headline
from harness.files import cache_folder
from harness.inputs import is_folder, why
from harness.sweeps.cluster.lifetime import left_sessions
from harness.targets.stores import opened
from harness.trials import merging, publishing
from harness.trials.cleaning import Removable, removables
from harness.trials.publishing import write_flat


def clean(
    store: Annotated[
        list[str] | None,
        typer.Option("--store", help="A store; also several times. Default: results/trials."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be removed, and stop.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Remove without asking.")] = False,
) -> None:
    """Remove caches, weights, logs and studies of no trial, and what killed processes left.

    Records and the weights of finished trials stay. What was used within the last hour stays, too.

    Example: harness clean --dry-run
    """
    for folder in store or []:
        if not is_folder(Path(folder)):
            raise UserError(f"--store {folder}: there is no such folder")
    console = Screen()
    stores = [opened(folder) for folder in store] if store else [opened(None)]
    leftovers = [*removables(stores), left_sessions()]
    _print(console, leftovers)
    count, size = sum(len(each.paths) for each in leftovers), sum(each.size for each in leftovers)
    if dry_run or not count:
        return
    if not yes:
        if not sys.stdin.isatty():
            raise UserError("nothing was removed, since nobody can be asked; add --yes to remove")
        typer.confirm(f"Remove {count} files and folders ({decimal(size)})?", abort=True)
    made = sum(each.remove(lambda why: echo(why, err=True)) for each in leftovers)
    console.print(f"Removed; this made {decimal(made)} of room.")


def _print(console: Screen, leftovers: Sequence[Removable]) -> None:
    """Print a table with one line for each kind that there is something of.

    Kept is what may be in use.
    """
    table = Table("kind", "what it is", box=box.SIMPLE_HEAD)
    for title in ("to remove", "size", "kept"):
        table.add_column(title, justify="right")
    for kind in leftovers:
        if kind.candidates:
            busy = len(kind.candidates) - len(kind.paths)
            numbers = str(len(kind.paths)), decimal(kind.size), str(busy)
            table.add_row(kind.name, kind.purpose, *numbers)
    console.say(f"The cache is {cache_folder()}.")
    console.print(table if table.row_count else "There is nothing to remove.")


def merge(
    stores: Annotated[
        list[str],
        typer.Argument(
            metavar="STORE...",
            help="The stores to be merged: folders, or s3://BUCKET/FOLDER. They stay as they are.",
            show_default=False,
        ),
    ],
    into: Annotated[
        str, typer.Option("--into", metavar="STORE", help="The store that gets their records.")
    ],
) -> None:
    """Bring the results of several machines together in one store.

    A trial that two stores have is kept once; when its results differ, it is named, the one in the
    store stays, and the exit code is 1. A finished record goes before an unfinished one.

    Example: harness merge /mnt/a/trials /mnt/b/trials --into results/trials
    """
    sources, target = [opened(each) for each in stores], opened(into)
    merging.check_places(sources, target)
    places = ", ".join(each.place for each in sources)
    with working(f"merging {places} into {target.place}") as work:
        merged = merging.merge(sources, target, work)
        work("compacting the store")
        target.compact()
        work("writing the flat file")
        unwritten = None
        try:
            write_flat(target)
        except OSError as error:
            unwritten = f"{target.flat_file} cannot be written ({why(error)})"
    echo(f"{target.place}: {merged.new} new, {merged.known} were there already")
    if unwritten is not None:
        echo(unwritten, err=True)
    for name, problem in merged.unreadable:
        echo(f"not read: {name} ({headline(problem)})", err=True)
    for conflict in merged.conflicts:
        echo(
            f"trial {conflict.key[:10]} has another result in {conflict.store}: "
            f"{conflict.difference}",
            err=True,
        )
    if merged.conflicts:
        raise typer.Exit(1)


def publish(
    store: Annotated[str, typer.Argument(metavar="STORE", help="The store.", show_default=False)],
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="The folder to write; it must not be there yet.", show_default=False
        ),
    ],
) -> None:
    """Write the public part of a store: configurations, scores, costs and digests.

    It names no host, no user and no path. Others print its tables, or merge it into their store.

    Example: harness publish results/trials published
    """
    options.check_new(folder)
    with working(f"publishing {store} into {folder}"), options.writing(folder):
        count = publishing.publish(opened(store), folder)
    echo(f"{folder}: {counted(count, 'record')}; {folder}/{publishing.PUBLIC_STORE} is a store.")
