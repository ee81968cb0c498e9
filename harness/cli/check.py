"""`harness check`: does a plugin keep the contract?"""

import typer

from harness.cli import options


def check(method: options.MethodArgument) -> None:
    """Run all that a plugin declares on a tiny model, in under a minute, and say what is wrong.

    Example: harness check methods/d2cse
    """
    from harness.trials.checking import problems

    found = problems(method)
    for problem in found:
        typer.echo(f"wrong: {problem}")
    if found:
        raise typer.Exit(1)
    typer.echo(f"{method} keeps the contract.")
