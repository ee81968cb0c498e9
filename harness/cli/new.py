"""`harness new`: the skeleton of a plugin."""

from pathlib import Path
from typing import Annotated

import typer


def new(
    path: Annotated[
        Path, typer.Argument(help="Folder of the new plugin, for example methods/mine.")
    ],
) -> None:
    """Write a plugin that passes `harness check`, to start from.

    Example: harness new methods/mine
    """
    from harness.errors import UserError
    from harness.plugin.skeleton import SKELETON

    if not path.name.isidentifier():
        raise UserError(
            f'"{path.name}" cannot name a method: letters, digits and underscores, no digit first'
        )
    if path.exists():
        raise UserError(f"{path} is there already; choose another name")
    try:
        path.mkdir(parents=True)
        (path / "__init__.py").write_text(SKELETON.format(name=path.name), encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path} cannot be written ({error.strerror})") from None
    typer.echo(f"{path}/__init__.py: change losses() and embed(), then run `harness check {path}`.")
