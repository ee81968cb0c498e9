"""`harness table`: prints the results of a store, alone or beside the numbers of a paper."""

import gc
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from harness import api
from harness.cli import options
from harness.cli.output import Screen, echo
from harness.errors import UserError, counted
from harness.inputs import finite, kind_of

if TYPE_CHECKING:
    from harness.report.tables import Table

TableFormat = Literal["terminal", "markdown", "latex", "csv", "json", "parquet"]


def table(
    paper: options.PaperOption = None,
    number: Annotated[
        int | None, typer.Option("--table", min=1, help="With --paper: only the table N.")
    ] = None,
    encoder: options.OursOnOption = None,
    store: options.StoreOption = None,
    format: Annotated[TableFormat, typer.Option(help="The format of the table.")] = "terminal",
    output: Annotated[
        Path | None, typer.Option(help="Write to this file instead of the screen.")
    ] = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="End with exit code 1 when a cell is missing, or when a published number lies "
            "outside the spread of our seeds.",
        ),
    ] = False,
    tolerance: Annotated[
        float | None,
        typer.Option(
            min=0,
            callback=finite,
            help="With --strict and --paper: the largest difference, in points, instead of the "
            "spread of the seeds.",
        ),
    ] = None,
) -> None:
    """Print the results as mean±std over seeds and label subsets, with n.

    The table has our results alone, or beside the numbers of a paper.

    Example: harness table --paper diffaug --table 1 --format latex --output table1.tex
    """
    # A large store becomes a million objects without a circle; the collector took a tenth of the
    # time to look through them.
    gc.disable()

    if format == "parquet" and output is None:
        raise UserError("--format parquet is not for the screen; name a file with --output")
    if output is not None and (kind := kind_of(output)) not in ("a file", "nothing"):
        raise UserError(f"{output} is {kind} and cannot be written; choose another file")
    if tolerance is not None and not (strict and paper):
        raise UserError("--tolerance needs --strict and --paper, whose numbers it is compared with")
    if tolerance is not None and encoder:
        raise UserError(
            f"--tolerance judges differences from the paper, and there are none with --encoder "
            f"{encoder}; leave one of them out"
        )
    made = _read(store, paper=paper, number=number, encoder=encoder, ask=strict)
    if output is None:
        print_sheets(made.sheets, format)
    else:
        try:
            output.write_bytes(made.render(format, _width(to_screen=False)))
        except OSError as error:
            raise UserError(
                f"{output} cannot be written ({error.strerror}); choose another file with --output"
            ) from None
    if strict:
        _end_if_incomplete(made.sheets, tolerance)


def _read(store: str | Path | None, **options: Any) -> api.Table:
    """The tables, while stderr says what is read."""
    with Screen(stderr=True).status("reading the store") as status:
        return api.table(store, **options, status=status.update)


def print_table(store: str | Path | None, **options: Any) -> None:
    """Print a table in a terminal. options: those of `harness.table`."""
    print_sheets(_read(store, **options).sheets)


def print_sheets(sheets: "Sequence[Table]", format: TableFormat = "terminal") -> None:
    """Print tables in a format, as wide as the terminal."""
    to_screen = sys.stdout.isatty()
    content = api.Table(sheets).render(format, _width(to_screen=to_screen), bold=to_screen)
    typer.echo(content.decode() if format == "terminal" else content, nl=False)


def _width(*, to_screen: bool) -> int:
    """The characters in a line of a table."""
    # COLUMNS goes before the size of a terminal, and says what is wanted of a pipe.
    if to_screen or os.environ.get("COLUMNS", "").isdecimal():
        return shutil.get_terminal_size((api.LINE, 24)).columns
    return api.LINE


def _end_if_incomplete(sheets: "Sequence[Table]", tolerance: float | None) -> None:
    """Name what is missing or differs, and end with exit code 1 if there is anything."""
    from harness.report.notes import first_of
    from harness.report.tables import failures

    if failed := failures(sheets, tolerance):
        shown = "; ".join(first_of(failed))
        echo(f"--strict: {counted(len(failed), 'failure')}: {shown}", err=True)
        raise typer.Exit(1)
