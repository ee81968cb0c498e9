"""`harness check`: checks that a plugin keeps the contract."""

from typing import Annotated

import typer

from harness.cli import options
from harness.cli.output import echo


def check(
    method: options.MethodArgument,
    encoder: Annotated[
        str | None,
        typer.Option("--encoder", help="An encoder to use instead of the embedded tiny one."),
    ] = None,
) -> None:
    """Run everything that a plugin declares on a tiny model, and print what is wrong.

    Each fault has the line of the plugin where it is. It takes less than a minute.

    Example: harness check methods/d2cse --encoder roberta-base
    """
    from harness.shared_cache import check_caches
    from harness.trials.checking import problems

    check_caches()
    found = problems(method, encoder)
    for problem in found:
        echo(f"wrong: {problem}")
    if found:
        raise typer.Exit(1)
    echo(f"{method} keeps the contract.")
