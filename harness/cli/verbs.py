"""The verbs of the command line.

A verb imports heavy modules inside the function, so that `--help` answers at once.
"""

import sys
from typing import Any

import typer

from harness.cli.check import check
from harness.cli.clean import clean
from harness.cli.compare import compare
from harness.cli.eval import eval_
from harness.cli.export import export
from harness.cli.figure import figure
from harness.cli.list import list_
from harness.cli.logs import logs
from harness.cli.merge import merge
from harness.cli.new import new
from harness.cli.picture import picture
from harness.cli.plan import plan
from harness.cli.prepare import prepare
from harness.cli.publish import publish
from harness.cli.push import push
from harness.cli.report import report
from harness.cli.reproduce import reproduce
from harness.cli.retrieve import retrieve
from harness.cli.run import run
from harness.cli.show import show
from harness.cli.sweep import sweep
from harness.cli.table import table
from harness.cli.version import version
from harness.cli.watch import watch
from harness.errors import SweepStopped, TrialFailure, UserError, one_line

UsageError: Any = typer.BadParameter.__base__
"""A mistake on the command line; Typer has it from click and exports only kinds of it"""

app = typer.Typer(
    name="harness",
    pretty_exceptions_enable=False,
    add_completion=True,
)
app.callback()(version)
for verb in (
    *(sweep, reproduce, prepare, run, plan, watch, logs, table, report, show),
    *(figure, compare, retrieve, picture, check, new, clean),
    *(export, push, merge, publish),
):
    app.command()(verb)
app.command("list")(list_)
app.command("eval")(eval_)


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
