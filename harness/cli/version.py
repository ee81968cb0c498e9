"""`harness --version`."""

from typing import Annotated

import typer

from harness.cli.output import echo

REPORTED_PACKAGES = ("torch", "transformers", "ray", "optuna", "deepspeed", "datasets", "pyarrow")
"""The packages whose versions decide most about a problem"""


def _print(asked: bool) -> None:
    if not asked:
        return
    import platform
    from importlib.metadata import distributions

    from harness import __version__

    found = {each.name: each.version for each in distributions()}

    echo(f"harness {__version__}")
    echo(f"python {platform.python_version()}, {platform.system()} {platform.machine()}")
    for name in REPORTED_PACKAGES:
        echo(f"{name} {found.get(name, 'is not installed')}")
    raise typer.Exit


def version(
    asked: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print,
            is_eager=True,
            help="Print the versions of harness and of what it runs on, for a report of a problem.",
        ),
    ] = False,
) -> None:
    """Benchmarks and hyperparameter sweeps for contrastive sentence embeddings."""
