"""`harness clean`: removes what can be made again, and what killed processes left behind."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.output import echo
from harness.errors import UserError
from harness.inputs import is_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from harness.trials.cleaning import Removable


def clean(
    store: Annotated[
        list[Path] | None,
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
    from rich.filesize import decimal

    from harness.cli.screen import Screen
    from harness.sweep.cluster.session_folder import left_sessions
    from harness.trials.cleaning import removables
    from harness.trials.store import Store
    from harness.trials.store_folders import DEFAULT_STORE

    for folder in store or []:
        if not is_folder(folder):
            raise UserError(f"--store {folder}: there is no such folder")
    console = Screen()
    stores = [Store(folder) for folder in store or [DEFAULT_STORE]]
    found = [*removables(stores), left_sessions()]
    _print(console, found)
    count, size = sum(len(each.paths) for each in found), sum(each.size for each in found)
    if dry_run or not count:
        return
    if not yes:
        if not sys.stdin.isatty():
            raise UserError("nothing was removed, since nobody can be asked; add --yes to remove")
        typer.confirm(f"Remove {count} files and folders ({decimal(size)})?", abort=True)
    made = sum(each.remove(lambda why: echo(why, err=True)) for each in found)
    console.print(f"Removed; this made {decimal(made)} of room.")


def _print(console: "Console", found: "Sequence[Removable]") -> None:
    """Print a table with one line for each kind that there is something of.

    Kept is what may be in use.
    """
    from rich import box
    from rich.filesize import decimal
    from rich.table import Table

    from harness.files import cache_folder

    table = Table("kind", "what it is", box=box.SIMPLE_HEAD)
    for title in ("to remove", "size", "kept"):
        table.add_column(title, justify="right")
    for each in found:
        if each.candidates:
            busy = len(each.candidates) - len(each.paths)
            numbers = str(len(each.paths)), decimal(each.size), str(busy)
            table.add_row(each.name, each.purpose, *numbers)
    console.print(f"The cache is {cache_folder()}.", soft_wrap=True)
    console.print(table if table.row_count else "There is nothing to remove.")
