"""The verbs of the command line; the module of a verb is imported when the verb is called."""

import ast
import platform
import sys
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from harness import __version__
from harness.errors import SweepStopped, TrialFailure, UserError, one_line
from harness.inputs import why


class Group(NamedTuple):
    """Verbs that belong together in the help."""

    title: str
    modules: dict[str, str]
    """Verb -> its module in `harness.cli`"""
    examples: tuple[str, str]


GROUPS = (
    Group(
        "Train and search",
        {
            "sweep": "sweep", "plan": "sweep", "reproduce": "sweep", "prepare": "sweep",
            "run": "run", "watch": "watch", "logs": "watch",
        },
        ("sweep simcse pooling quickstart", "plan d2cse unsup --encoder bert-base-uncased"),
    ),
    Group(
        "Results",
        {
            "table": "table", "show": "show", "compare": "compare", "report": "figure",
            "figure": "figure", "picture": "figure", "list": "list",
        },
        ("table --paper diffaug --table 1", "compare simcse diffaug"),
    ),
    Group(
        "Models",
        {"eval": "eval", "retrieve": "eval", "export": "export", "convert": "export"},
        ("eval bert-base-uncased --suite sts,geometry", "export 4f2a my-model"),
    ),
    Group(
        "Methods of your own",
        {"new": "plugins", "check": "plugins"},
        ("new methods/mine --like pairs", "check methods/mine"),
    ),
    Group(
        "Stores",
        {"merge": "stores", "publish": "stores", "clean": "stores"},
        ("merge /mnt/a/trials /mnt/b/trials --into results/trials", "clean --dry-run"),
    ),
)  # fmt: skip
VERBS = {verb: module for group in GROUPS for verb, module in group.modules.items()}
"""Verb -> its module in `harness.cli`, in the order of the help"""
FUNCTIONS = {"list": "list_", "eval": "eval_"}
"""Verb -> its function, where Python has a function of its name"""
REPORTED_PACKAGES = ("torch", "transformers", "ray", "optuna", "deepspeed", "datasets", "pyarrow")
"""The packages whose versions decide most about a problem"""
UsageError: Any = typer.BadParameter.__base__
"""A mistake on the command line; Typer has it from click and exports only kinds of it"""


class _Command(TyperCommand):
    """A verb with its options, of which a switch is shown without the word `bool`."""

    def get_params(self, ctx: Any) -> Any:
        params = super().get_params(ctx)
        for param in params:
            if getattr(param, "is_flag", False):
                param.metavar = ""
        return params


def command(verb: str) -> TyperCommand:
    """The command of a verb with its options; it imports the module of the verb."""
    module = import_module(f"harness.cli.{VERBS[verb]}")
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    alone.command(verb, cls=_Command)(getattr(module, FUNCTIONS.get(verb, verb)))
    made = typer.main.get_command(alone)
    assert isinstance(made, TyperCommand)
    return made


class _Verb(TyperCommand):
    """A verb by its name, which becomes the command with its options when it is called."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        return command(str(self.name)).make_context(info_name, args, parent, **extra)


class _Verbs(TyperGroup):
    """The verbs, of which the help shows what stands in their files, without importing them."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        verb = super().get_command(ctx, cmd_name)
        if verb is not None:
            verb.help = _docstring(cmd_name)
        return verb

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the verbs in their groups, with two examples for each group."""
        formatter.write_usage("harness", "VERB [ARGUMENTS] [OPTIONS]")
        formatter.write_paragraph()
        formatter.write_text(str(self.help))
        for group in GROUPS:
            with formatter.section(group.title):
                formatter.write_dl(
                    [(verb, _docstring(verb).partition("\n")[0]) for verb in group.modules]
                )
                formatter.write_paragraph()
                for example in group.examples:
                    formatter.write(f"    harness {example}\n")
        options: Any = self.get_params(ctx)
        with formatter.section("Options"):
            formatter.write_dl([(name, option.help) for option in options for name in option.opts])
        formatter.write_paragraph()
        formatter.write_text("`harness VERB --help` shows the arguments and options of a verb.")


def _docstring(verb: str) -> str:
    """The docstring of the function of a verb."""
    source = (files("harness.cli") / f"{VERBS[verb]}.py").read_bytes()
    return next(
        str(ast.get_docstring(node))
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef) and node.name == FUNCTIONS.get(verb, verb)
    )


def _print_versions(asked: bool) -> None:
    if not asked:
        return
    from importlib.metadata import distributions  # no other verb needs it

    versions = {package.name: package.version for package in distributions()}
    typer.echo(f"harness {__version__}")
    typer.echo(f"python {platform.python_version()}, {platform.system()} {platform.machine()}")
    for name in REPORTED_PACKAGES:
        typer.echo(f"{name} {versions.get(name, 'is not installed')}")
    raise typer.Exit


app = typer.Typer(
    name="harness",
    cls=_Verbs,
    context_settings={"max_content_width": 120},
    pretty_exceptions_enable=False,
)


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
        Path.cwd()  # as in a shell whose folder was removed or made anew
    except OSError as error:
        return _refused(f"the working folder cannot be used ({why(error)}); `cd` to another one", 2)
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
