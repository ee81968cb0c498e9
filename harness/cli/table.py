"""`harness table`: prints the results of a store, alone or beside the numbers of a paper."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from harness.cli import options

if TYPE_CHECKING:
    from harness.report.sheet import Sheet
    from harness.trials.store import Store

TableFormat = Literal["terminal", "markdown", "csv", "latex", "parquet"]
NOT_A_TERMINAL_WIDTH = 140
"""Characters in a line of a table that goes to a file or to another program"""


def table(
    paper: Annotated[
        str | None,
        typer.Option(
            help="Print the tables of this paper: clsr, d2cse, dcpcse, diffaug or diffcse."
        ),
    ] = None,
    number: Annotated[
        int | None, typer.Option("--table", min=1, help="With --paper: only the table N.")
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(help="With --paper: show trials on this encoder in the place of the paper's."),
    ] = None,
    store: options.StoreOption = None,
    format: Annotated[
        TableFormat,
        typer.Option(help="The format of the table."),
    ] = "terminal",
    output: Annotated[
        Path | None, typer.Option(help="Write to this file instead of the screen.")
    ] = None,
) -> None:
    """Print the results as mean±std over seeds and label subsets, with n.

    The table has our results alone, or beside the numbers of a paper.

    Example: harness table --paper diffaug --format latex --output table1.tex
    """
    import gc
    import shutil
    import sys

    # A large store becomes a million objects without a circle; the collector took a tenth of the
    # time to look through them.
    gc.disable()

    from harness.errors import UserError
    from harness.inputs import kind_of
    from harness.report.render import render_sheets

    if format == "parquet" and output is None:
        raise UserError("--format parquet is not for the screen; name a file with --output")
    if output is not None and (found := kind_of(output)) not in ("a file", "nothing"):
        raise UserError(f"{output} is {found} and cannot be written; choose another file")
    to_screen = output is None and sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if to_screen else NOT_A_TERMINAL_WIDTH
    content = render_sheets(_sheets(paper, number, encoder, store), format, width)
    if output is None:
        typer.echo(content, nl=False)
    else:
        _write(content, output)


def _write(content: bytes, output: Path) -> None:
    """Write a table to a file. Raises UserError when the file cannot be written."""
    from harness.errors import UserError

    try:
        output.write_bytes(content)
    except OSError as error:
        raise UserError(
            f"{output} cannot be written ({error.strerror}); choose another file with --output"
        ) from None


def _sheets(
    paper: str | None, number: int | None, encoder: str | None, store: str | None
) -> "list[Sheet]":
    """The tables of the store, or those of a paper with our numbers."""
    from harness.errors import UserError
    from harness.report.measured_trials import TABLE_COLUMNS

    found = options.opened(store)
    if paper is not None:
        return _paper_sheets(paper, number, encoder, found)
    if number is not None:
        raise UserError(f"--table {number} needs the name of its paper: --paper PAPER")
    if encoder is not None:
        raise UserError(f"--encoder {encoder} needs the name of a paper: --paper PAPER")
    from harness.report.store_tables import store_sheets

    return store_sheets(found.read(TABLE_COLUMNS), found.place)


def _paper_sheets(
    paper: str, number: int | None, encoder: str | None, store: "Store"
) -> "list[Sheet]":
    """The tables of a paper; the store's models are asked where a single table is wanted."""
    from rich.console import Console

    from harness.plugin.registry import names
    from harness.report.answers import Answers
    from harness.report.commands import Commands
    from harness.report.paper_tables import paper_sheets
    from harness.report.quantities import PAPER_COLUMNS

    with Console(stderr=True).status("reading the store") as status:
        return paper_sheets(
            store.read(PAPER_COLUMNS),
            paper,
            Commands(names(), store.place),
            None if number is None else str(number),
            encoder=encoder,
            answers=None if number is None else Answers(store, status.update),
        )
