"""`harness publish`: writes what others may see of a store."""

from pathlib import Path
from typing import Annotated

import typer

from harness.cli import options
from harness.cli.output import echo


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
    from harness.trials import publishing

    options.check_new(folder)
    with options.writing(folder):
        count = publishing.publish(options.opened(store), folder)
    echo(f"{folder}: {count} records; {folder}/{publishing.PUBLIC_STORE} is a store.")
