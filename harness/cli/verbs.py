"""The verbs of the command line; the module of a verb is imported when the verb is called."""

import ast
import platform
import sys
from importlib import import_module
from importlib.metadata import distributions
from importlib.resources import files
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from harness import __version__
from harness.errors import SweepStopped, TrialFailure, UserError, one_line

VERBS = {
    "sweep": "sweep", "reproduce": "sweep", "prepare": "sweep", "run": "run", "plan": "sweep",
    "watch": "watch", "logs": "watch", "table": "table", "report": "figure", "show": "show",
    "figure": "figure", "compare": "compare", "retrieve": "eval", "picture": "figure",
    "check": "plugins", "new": "plugins", "clean": "stores", "export": "export", "push": "export",
    "merge": "stores", "publish": "stores", "list": "list", "eval": "eval",
}  # fmt: skip
"""Verb -> its module in `harness.cli`, in the order of the help"""
FUNCTIONS = {"list": "list_", "eval": "eval_"}
"""Verb -> its function, where Python has a function of its name"""
REPORTED_PACKAGES = ("torch", "transformers", "ray", "optuna", "deepspeed", "datasets", "pyarrow")
"""The packages whose versions decide most about a problem"""
UsageError: Any = typer.BadParameter.__base__
"""A mistake on the command line; Typer has it from click and exports only kinds of it"""


def command(verb: str) -> TyperCommand:
    """The command of a verb with its options; it imports the module of the verb."""
    module = import_module(f"harness.cli.{VERBS[verb]}")
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    alone.command(verb)(getattr(module, FUNCTIONS.get(verb, verb)))
    found = typer.main.get_command(alone)
    assert isinstance(found, TyperCommand)
    return found


class _Verb(TyperCommand):
    """A verb by its name, which becomes the command with its options when it is called."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        return command(str(self.name)).make_context(info_name, args, parent, **extra)


class _Verbs(TyperGroup):
    """The verbs, of which the help shows what stands in their files, without importing them."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        found = super().get_command(ctx, cmd_name)
        if found is not None:
            found.help = _docstring(cmd_name)
        return found


def _docstring(verb: str) -> str | None:
    """The docstring of the function of a verb."""
    source = (files("harness.cli") / f"{VERBS[verb]}.py").read_bytes()
    return next(
        ast.get_docstring(node)
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef) and node.name == FUNCTIONS.get(verb, verb)
    )


def _print_versions(asked: bool) -> None:
    if not asked:
        return

    found = {each.name: each.version for each in distributions()}
    typer.echo(f"harness {__version__}")
    typer.echo(f"python {platform.python_version()}, {platform.system()} {platform.machine()}")
    for name in REPORTED_PACKAGES:
        typer.echo(f"{name} {found.get(name, 'is not installed')}")
    raise typer.Exit


app = typer.Typer(name="harness", cls=_Verbs, pretty_exceptions_enable=False, add_completion=True)


@app.callback()
def harness(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_versions,
            is_eager=True,
            help="Print the versions of harness and of what it runs on, for a report of a problem.",
        ),
    ] = False,
) -> None:
    """Benchmarks and hyperparameter sweeps for contrastive sentence embeddings."""


for verb in VERBS:
    app.command(verb, cls=_Verb)(lambda: None)


def run_verb(arguments: list[str]) -> int:
    """Run the verb that the arguments name, and return the exit code.

    What is raised for a user to read becomes one sentence on stderr.
    """
    try:
        return app(arguments, prog_name="harness", standalone_mode=False) or 0
    except UsageError as error:  # Typer itself would draw a box of several lines around it
        return _refused(_usage(error), 2)
    except typer.Abort:
        return _refused("aborted", 1)
    except UserError as error:
        return _refused(error, 2)
    except (TrialFailure, SweepStopped) as error:
        return _refused(error, 1)


def _refused(error: Exception | str, code: int) -> int:
    print(f"Error: {one_line(str(error))}", file=sys.stderr)
    return code


def _usage(error: Any) -> str:
    """The sentence about a mistake on the command line, with the help that has the right words."""
    message = error.format_message().replace("Value error, ", "").rstrip(".")
    verb = error.ctx.command_path if error.ctx else "harness"
    return f"{message}; see `{verb} --help`"
