"""`harness check`: checks that a plugin keeps the contract."""

import typer

from harness.cli import options


def check(method: options.MethodArgument) -> None:
    """Run everything that a plugin declares on a tiny model, and print what is wrong.

    It takes less than a minute.

    Example: harness check methods/d2cse
    """
    from harness.shared_cache import check_caches
    from harness.trials.checking import problems

    check_caches()
    found = problems(method)
    for problem in found:
        typer.echo(f"wrong: {problem}")
    if found:
        raise typer.Exit(1)
    typer.echo(f"{method} keeps the contract.")
