"""The command line: each verb is a function in a file of its own."""

import os
import sys
from importlib.abc import MetaPathFinder

PRINTING = (
    "compare",
    "list",
    "logs",
    "merge",
    "plan",
    "publish",
    "show",
    "sweep",
    "table",
    "watch",
)
"""Verbs that print what is stored; a sweep and a comparison may compute as well"""
INTERRUPTED = 130
"""Exit code after Ctrl-C, by the convention of shells: 128 + the number of the signal"""


def main() -> None:
    """Run the verb that the command line names.

    A user's mistake gives one sentence and exit code 2. A model without a score, and a sweep
    that cannot go on, give one sentence and exit code 1. Ctrl-C gives exit code 130, also while
    modules are still being imported, and a reader of the output that has gone exit code 1.
    """
    # Torch says on stderr, from its C++, what only its own developers can use.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    # Processes of Python that libraries start, such as Ray's, import nothing from the working
    # folder.
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        from harness.cli.output import abandon_output, prepare_streams

        prepare_streams()
        try:
            from harness.cli.verbs import run_verb

            if sys.argv[1:2] and sys.argv[1] in PRINTING:
                _leave_pandas_out()
            code = run_verb(sys.argv[1:] or ["--help"])
            sys.stdout.flush()
        except BrokenPipeError:
            abandon_output()
            code = 1
    except KeyboardInterrupt:
        code = INTERRUPTED
    if code == INTERRUPTED:  # Typer turns Ctrl-C into this
        print(
            "\nInterrupted. What has finished is in the store; "
            "the same command goes on from there.",
            file=sys.stderr,
        )
    sys.exit(code)


class _NoPandas(MetaPathFinder):
    """Says of pandas that it is not installed."""

    def find_spec(self, fullname: str, *_: object) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(name=fullname)


def _leave_pandas_out() -> None:
    """Keep pyarrow from importing pandas, which takes a quarter of a second.

    It does so with its first array, to know pandas's objects where it is given some. Where pandas
    is imported by others afterwards, pyarrow finds it.
    """
    import pyarrow

    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pyarrow.array([])
    finally:
        sys.meta_path.remove(finder)
