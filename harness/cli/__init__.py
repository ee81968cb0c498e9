"""The command line: each verb is a function in a file of its own.

A verb imports heavy modules inside the function, so that `--help` answers at once.
"""

import sys

import typer

from harness.cli.check import check
from harness.cli.clean import clean
from harness.cli.compare import compare
from harness.cli.eval import eval_
from harness.cli.list import list_
from harness.cli.new import new
from harness.cli.picture import picture
from harness.cli.plan import plan
from harness.cli.retrieve import retrieve
from harness.cli.run import run
from harness.cli.show import show
from harness.cli.sweep import sweep
from harness.cli.table import table
from harness.errors import TrialFailure, UserError

INTERRUPTED = 130
"""Exit code after Ctrl-C, by the convention of shells: 128 + the number of the signal"""

app = typer.Typer(
    name="harness",
    help="Benchmarks and hyperparameter sweeps for contrastive sentence embeddings.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=True,
)
for verb in (sweep, run, plan, table, show, compare, retrieve, picture, check, new, clean):
    app.command()(verb)
app.command("list")(list_)
app.command("eval")(eval_)


def main() -> None:
    """Run the verb that the command line names.

    A user's mistake gives one sentence and exit code 2. A model without a score gives one sentence
    and exit code 1. Ctrl-C gives exit code 130.
    """
    try:
        app()
    except UserError as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(2)
    except TrialFailure as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(_interrupted())
    except SystemExit as ended:
        if ended.code == INTERRUPTED:  # Typer turns Ctrl-C into this
            _interrupted()
        raise


def _interrupted() -> int:
    print(
        "\nInterrupted. What has finished is in the store; the same command goes on from there.",
        file=sys.stderr,
    )
    return INTERRUPTED
