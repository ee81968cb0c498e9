"""`harness merge`: brings the results of several machines together."""

from typing import Annotated

import typer

from harness.cli import options
from harness.cli.output import echo
from harness.errors import headline
from harness.inputs import why


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
    from harness.cli.progress import working
    from harness.trials import merging
    from harness.trials.flat import write_flat

    sources, target = [options.opened(each) for each in stores], options.opened(into)
    merging.check_places(sources, target)
    places = ", ".join(each.place for each in sources)
    with working(f"merging {places} into {target.place}") as work:
        found = merging.merge(sources, target, work)
        work("compacting the store")
        target.compact()
        work("writing the flat file")
        unwritten = None
        try:
            write_flat(target)
        except OSError as error:
            unwritten = f"{target.flat_file} cannot be written ({why(error)})"
    echo(f"{target.place}: {found.new} new, {found.known} were there already")
    if unwritten is not None:
        echo(unwritten, err=True)
    for name, problem in found.unreadable:
        echo(f"not read: {name} ({headline(problem)})", err=True)
    for conflict in found.conflicts:
        echo(
            f"trial {conflict.key[:10]} has another result in {conflict.store}: "
            f"{conflict.difference}",
            err=True,
        )
    if found.conflicts:
        raise typer.Exit(1)
