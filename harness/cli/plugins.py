"""The verbs of the author of a plugin: `harness check` and `harness new`."""

import shlex
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal

import typer

from harness.cli import options
from harness.cli.output import echo
from harness.cli.progress import working
from harness.data.hub import check_model
from harness.errors import UserError
from harness.inputs import kind_of
from harness.shared_cache import check_caches


def check(method: options.MethodArgument, encoder: options.EncoderOption = None) -> None:
    """Run everything that a plugin declares on a tiny model, and print what is wrong.

    Each fault has the line of the plugin where it is. It takes less than a minute.

    Example: harness check methods/d2cse --encoder roberta-base
    """
    from harness.plugin import registry

    check_caches()
    registry.locate(method)  # it refuses a name that no method has
    if encoder is not None:
        check_model(encoder)
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


def new(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="[paper] PATH",
            help="Folder of the new plugin, for example methods/mine; behind the word paper, that "
            "of a paper of your own.",
        ),
    ],
    paper_path: Annotated[Path | None, typer.Argument(hidden=True)] = None,
    like: Annotated[
        Skeleton,
        typer.Option(
            help="What the plugin begins as: views that differ by dropout, a momentum encoder "
            "with a queue, prompts on a frozen encoder, labelled pairs, scored pairs, two stages, "
            "or a map of frozen vectors."
        ),
    ] = "simcse",
) -> None:
    """Write a small plugin that passes `harness check`, or a paper of your own, as a beginning.

    `harness new paper mine` writes tables, a search space and a plugin for the verbs that take
    --paper, such as `harness table --paper mine`.

    Example: harness new methods/mine --like pairs
    """
    if paper_path is not None:
        if str(path) != "paper":
            raise UserError(f"one folder is written, and not {path} and {paper_path}")
        if like != "simcse":
            raise UserError(
                f"the plugin of a new paper is like simcse; for another one, write it with "
                f"`harness new PATH --like {like}` and name its path in paper.yaml"
            )
        _new_paper(paper_path)
        return
    _write(path, {"__init__.py": skeleton(like, path.name)})
    echo(f"{path}/__init__.py: change losses() and embed(), then run `harness check {path}`.")


def _write(path: Path, texts: Mapping[str, str]) -> None:
    """Write a new folder. texts: name of a file -> its text. Raises UserError where it cannot."""
    if not path.name.isidentifier():
        raise UserError(
            f'"{path.name}" cannot be the name of a method: use letters, digits and underscores, '
            f"and no digit first"
        )
    if kind_of(path) != "nothing":
        raise UserError(f"{path} exists already; choose another name")
    with options.writing(path):
        path.mkdir(parents=True)
        for name, text in texts.items():
            (path / name).write_text(text, encoding="utf-8")


def _new_paper(path: Path) -> None:
    """Write the folder of a paper, and print what is in it and three commands."""
    from harness.plugin import registry
    from harness.report.papers import papers

    name = path.name
    if name in (*papers(), *registry.names()):
        raise UserError(f'harness has a paper or a method "{name}"; choose another name')
    written = {
        file: _template(file).replace("FOLDER", str(path)).replace("NAME", name)
        for file in ("paper.yaml", "space.yaml")
    }
    _write(path, {**written, f"{name}.py": skeleton("simcse", name)})
    word = shlex.quote(str(path))
    for line in (
        f"{path}/paper.yaml: tables with published numbers, and what is run for their rows",
        f"{path}/space.yaml: a search space",
        f"{path}/{name}.py: a method; change losses() and embed()",
        "Next, on the embedded tiny-bert:",
        f"  harness sweep --paper {word} --table 1",
        f"  harness table --paper {word} --table 1 --format latex",
        f"  harness sweep {word}/space.yaml",
    ):
        echo(line)


def _template(file: str) -> str:
    path = files("harness") / "plugin" / "skeletons" / file
    return path.read_text(encoding="utf-8")


def skeleton(like: Skeleton, name: str) -> str:
    """The source of a plugin called `name`. like: as `harness new --like` names it."""
    return _template(f"{like.replace('-', '_')}.py").replace("NAME", name, 1)
