"""The verbs of the author of a plugin: `harness check` and `harness new`."""

from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal, get_args

import typer

from harness.cli import completion, options
from harness.cli.output import echo
from harness.cli.progress import working
from harness.errors import UserError
from harness.inputs import kind_of
from harness.shared_cache import check_caches


def check(
    method: options.MethodArgument,
    encoder: Annotated[
        str | None,
        typer.Option(
            "--encoder",
            help="An encoder to use instead of the embedded tiny one.",
            autocompletion=completion.encoders,
        ),
    ] = None,
) -> None:
    """Run everything that a plugin declares on a tiny model, and print what is wrong.

    Each fault has the line of the plugin where it is. It takes less than a minute.

    Example: harness check methods/d2cse --encoder roberta-base
    """
    from harness.plugin import registry

    check_caches()
    registry.locate(method)  # it refuses a name that no method has
    with working(f"checking {method}") as work:
        work("loading torch and the method")
        from harness.plugin_check.check import problems

        faults = problems(method, encoder, work)
    for fault in faults:
        echo(f"wrong: {fault}")
    if faults:
        raise typer.Exit(1)
    echo(f"{method} keeps the contract.")


Skeleton = Literal["simcse", "momentum", "prompts", "pairs", "scored-pairs", "two-stage", "frozen"]
SKELETONS: tuple[Skeleton, ...] = get_args(Skeleton)


def new(
    path: Annotated[
        Path, typer.Argument(help="Folder of the new plugin, for example methods/mine.")
    ],
    like: Annotated[
        Skeleton,
        typer.Option(
            help="What the plugin begins as: views that differ by dropout, a momentum encoder "
            "with a queue, prompts on a frozen encoder, labelled pairs, scored pairs, two stages, "
            "or a map of frozen vectors."
        ),
    ] = "simcse",
) -> None:
    """Write a small plugin that passes `harness check`, as a beginning.

    Example: harness new methods/mine --like pairs
    """
    if not path.name.isidentifier():
        raise UserError(
            f'"{path.name}" cannot be the name of a method: use letters, digits and underscores, '
            f"and no digit first"
        )
    if kind_of(path) != "nothing":
        raise UserError(f"{path} exists already; choose another name")
    try:
        path.mkdir(parents=True)
        (path / "__init__.py").write_text(skeleton(like, path.name), encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path} cannot be written ({error.strerror})") from None
    echo(f"{path}/__init__.py: change losses() and embed(), then run `harness check {path}`.")


def skeleton(like: Skeleton, name: str) -> str:
    """The source of a plugin called `name`.

    like: as `harness new --like` names it.
    """
    file = files("harness") / "plugin" / "skeletons" / f"{like.replace('-', '_')}.py"
    return file.read_text(encoding="utf-8").replace("NAME", name, 1)
