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
    from harness.cli.progress import working
    from harness.plugin import registry
    from harness.shared_cache import check_caches

    check_caches()
    registry.locate(method)  # it refuses a name that no method has
    with working(f"checking {method}") as work:
        work("loading torch and the method")
        from harness.trials.checking import problems

        found = problems(method, encoder, work)
    for problem in found:
        echo(f"wrong: {problem}")
    if found:
        raise typer.Exit(1)
    echo(f"{method} keeps the contract.")
