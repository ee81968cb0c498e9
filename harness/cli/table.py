"""`harness table`: what the store holds, alone or beside the numbers of a paper."""

from pathlib import Path
from typing import Annotated, Literal

import typer


def table(
    paper: Annotated[
        str | None,
        typer.Option(
            help="Beside the tables of this paper: clsr, d2cse, dcpcse, diffaug or diffcse."
        ),
    ] = None,
    store: Annotated[
        Path | None, typer.Option(help="Folder with the results.", show_default="results/trials")
    ] = None,
    format: Annotated[
        Literal["terminal", "markdown", "csv", "latex", "parquet"],
        typer.Option(help="How to print it."),
    ] = "terminal",
    output: Annotated[
        Path | None, typer.Option(help="Write to this file instead of the screen.")
    ] = None,
) -> None:
    """Print the results as mean±std over seeds and label subsets, with n.

    They stand alone, or beside the numbers of a paper.

    Example: harness table --paper diffaug --format latex --output table1.tex
    """
    import shutil
    import sys

    from harness.errors import UserError
    from harness.report.render import render_sheets
    from harness.trials.store import DEFAULT_STORE, Store

    if format == "parquet" and output is None:
        raise UserError("--format parquet is not for the screen; say where with --output")
    folder = store or DEFAULT_STORE
    if paper is None:
        from harness.report.store_tables import store_sheets

        sheets = store_sheets(Store(folder).read(), folder)
    else:
        from harness.plugin.registry import names
        from harness.report.commands import Commands
        from harness.report.paper_tables import paper_sheets

        sheets = paper_sheets(Store(folder).read(), paper, Commands(names(), folder))
    to_screen = output is None and sys.stdout.isatty()
    content = render_sheets(
        sheets, format, shutil.get_terminal_size().columns if to_screen else 140
    )
    if output is None:
        typer.echo(content, nl=False)
        return
    try:
        output.write_bytes(content)
    except OSError as error:
        raise UserError(
            f"{output} cannot be written ({error.strerror}); choose another file with --output"
        ) from None
