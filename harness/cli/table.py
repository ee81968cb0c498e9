"""`harness table`: prints the results of a store, alone or beside the numbers of a paper."""

import gc
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from harness.cli import options
from harness.cli.output import Screen, echo
from harness.errors import UserError
from harness.inputs import finite, kind_of
from harness.report.published import load_paper

if TYPE_CHECKING:
    from harness.report.tables import Table

TableFormat = Literal["terminal", "markdown", "latex", "html", "csv", "json", "parquet"]
NOT_A_TERMINAL_WIDTH = 180
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
    encoder: options.OursOnOption = None,
    rows: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,...",
            help="A row for each value of these: method, setting, encoder or any hyperparameter.",
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(metavar="METRIC,...", help="A column for each of these: avg, stsb, dev, ..."),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="SQL",
            help="Only the rows for which this holds, such as \"encoder = 'roberta-base' and "
            'learning_rate < 1e-4".',
        ),
    ] = None,
    store: options.StoreOption = None,
    format: Annotated[
        TableFormat,
        typer.Option(help="The format of the table."),
    ] = "terminal",
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

    The table has our results alone, or beside the numbers of a paper, or the rows and columns that
    you name.

    Example: harness table --paper diffaug --table 1 --format latex --output table1.tex
    """
    # A large store becomes a million objects without a circle; the collector took a tenth of the
    # time to look through them.
    gc.disable()

    if format == "parquet" and output is None:
        raise UserError("--format parquet is not for the screen; name a file with --output")
    if output is not None and (found := kind_of(output)) not in ("a file", "nothing"):
        raise UserError(f"{output} is {found} and cannot be written; choose another file")
    if tolerance is not None and not (strict and paper):
        raise UserError("--tolerance needs --strict and --paper, whose numbers it is compared with")
    if tolerance is not None and encoder:
        raise UserError(
            f"--tolerance judges differences from the paper, and there are none with --encoder "
            f"{encoder}; leave one of them out"
        )
    if paper is not None:
        load_paper(paper)  # a wrong name is answered before what follows is imported
    from harness.report.formats import rendered

    own = _Own(_parts(rows), _parts(columns), where)
    to_screen = output is None and sys.stdout.isatty()
    if paper is None:
        sheets = _own_sheets(own, number, encoder, store)
    elif own != _Own([], [], None):
        raise UserError("--rows, --columns and --where make a table of your own; leave --paper out")
    else:
        sheets = _paper_sheets(paper, number, encoder, store, ask=strict or number is not None)
    content = rendered(sheets, format, width_of(to_screen=to_screen), bold=to_screen)
    if output is None:
        typer.echo(content.decode() if format == "terminal" else content, nl=False)
    else:
        _write(content, output)
    if strict:
        _end_if_incomplete(sheets, tolerance)


def width_of(*, to_screen: bool) -> int:
    """The characters in a line of a table."""
    # COLUMNS goes before the size of a terminal, and says what is wanted of a pipe.
    if to_screen or os.environ.get("COLUMNS", "").isdecimal():
        return shutil.get_terminal_size((NOT_A_TERMINAL_WIDTH, 24)).columns
    return NOT_A_TERMINAL_WIDTH


def _end_if_incomplete(sheets: "list[Table]", tolerance: float | None) -> None:
    """Name what is missing or differs, and end with exit code 1 if there is anything."""
    from harness.report.notes import SHOWN, counted
    from harness.report.tables import failures

    if found := failures(sheets, tolerance):
        more = [f"and {len(found) - SHOWN} more"] if found[SHOWN:] else []
        shown = "; ".join([*found[:SHOWN], *more])
        echo(f"--strict: {counted(len(found), 'failure')}: {shown}", err=True)
        raise typer.Exit(1)


def _write(content: bytes, output: Path) -> None:
    """Write a table to a file. Raises UserError when the file cannot be written."""
    try:
        output.write_bytes(content)
    except OSError as error:
        raise UserError(
            f"{output} cannot be written ({error.strerror}); choose another file with --output"
        ) from None


@dataclass(frozen=True)
class _Own:
    """What a user wants of a table of the store."""

    rows: list[str]
    """Parts of names, which may have commas"""
    columns: list[str]
    where: str | None


def _parts(text: str | None) -> list[str]:
    return [] if text is None else text.split(",")


def _own_sheets(
    own: _Own, number: int | None, encoder: str | None, store: str | None
) -> "list[Table]":
    """The tables of the store, or the one that the user describes."""
    from harness.report.measured_trials import TABLE_COLUMNS

    found = options.opened(store)
    if number is not None:
        raise UserError(f"--table {number} needs the name of its paper: --paper PAPER")
    options.check_ours_on(encoder, None)
    reading = found.read(TABLE_COLUMNS)
    if own.rows or own.columns:
        from harness.report.store_tables import own_table

        return [own_table(reading, found.place, own.rows, own.columns, own.where)]
    from harness.report.store_tables import store_tables

    return store_tables(reading, found.place, own.where)


def print_filled(
    paper: str, number: int, encoder: str | None, store: str | None, values: Mapping[str, Any]
) -> None:
    """Print a table of a paper. values: hyperparameters that all our trials in it have."""

    from harness.report.formats import rendered

    to_screen = sys.stdout.isatty()
    sheets = _paper_sheets(paper, number, encoder, store, ask=True, values=values)
    content = rendered(sheets, "terminal", width_of(to_screen=to_screen), bold=to_screen)
    typer.echo(content.decode(), nl=False)


def _paper_sheets(
    paper: str,
    number: int | None,
    encoder: str | None,
    store: str | None,
    *,
    ask: bool,
    values: Mapping[str, Any] | None = None,
) -> "list[Table]":
    """The tables of a paper. `ask`: also those cells for which the store's models are asked."""
    from harness.plugin.registry import names
    from harness.report.matching import Commands
    from harness.report.paper_cells import Answers
    from harness.report.paper_tables import paper_tables
    from harness.report.quantities import PAPER_COLUMNS

    found = options.opened(store)
    with Screen(stderr=True).status("reading the store") as status:
        return paper_tables(
            found.read(PAPER_COLUMNS),
            paper,
            Commands(names(), found.place),
            None if number is None else str(number),
            encoder=encoder,
            answers=Answers(found, status.update) if ask else None,
            values=values,
        )
