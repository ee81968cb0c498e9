"""The command line: each verb is a function, which `harness.cli.verbs` finds in its file."""

import errno
import io
import os
import signal
import sys
import threading
from typing import TextIO

from harness.processes import collect_seldom

UNWRITTEN = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of an output that takes no more: its reader has gone, or its disk is full"""
INTERRUPTED = 130
"""Exit code after Ctrl-C, by the convention of shells: 128 + the number of the signal"""


def main() -> None:
    """Run the verb that the command line names.

    A user's mistake gives one sentence and exit code 2. A model without a score, and a sweep
    that cannot go on, give one sentence and exit code 1. Ctrl-C gives exit code 130, also while
    modules are still being imported. An output that cannot be written gives one sentence and exit
    code 1, and one whose reader has gone exit code 1 alone.
    """
    # Torch says on stderr, from its C++, what only its own developers can use.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    # Processes of Python that libraries start, such as Ray's, import nothing from the working
    # folder.
    os.environ["PYTHONSAFEPATH"] = "1"
    # Pydantic would look for its plugins in the metadata of every package, as a tenth of the work
    # of a refusal.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "true")
    # The threads of OpenBLAS, one for each core, sleep at once when they have nothing to do. They
    # would spin, which is half of what it costs to import numpy, and as much again for scipy.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
    if "_HARNESS_COMPLETE" in os.environ:
        # Typer folds what a word means, and fish would offer the second line as a word.
        os.environ["COLUMNS"] = "1000"
    collect_seldom()
    sys.unraisablehook = _hear_again
    try:
        _prepare_streams()
        try:
            # Here, so that Ctrl-C while modules are imported is heard, too.
            from harness.cli.verbs import run_verb

            code = run_verb(sys.argv[1:] or ["--help"])
            sys.stdout.flush()
        except OSError as error:
            if error.filename is not None or error.errno not in UNWRITTEN:
                raise
            from harness.training.interruption import say_unwritten

            say_unwritten(error)
            _abandon_output()
            code = 1
    except KeyboardInterrupt:
        code = INTERRUPTED
    if code == INTERRUPTED:  # Typer turns Ctrl-C into this
        exec("")  # else `python -m harness` would end by the signal where an `exec` was interrupted
        try:
            print(
                "\nInterrupted. What has finished is in the store; "
                "the same command goes on from there.",
                file=sys.stderr,
            )
            sys.stdout.flush()
        except OSError:  # the terminal has gone
            _abandon_output()
    sys.exit(code)


def _hear_again(lost: "sys.UnraisableHookArgs") -> None:
    """Send Ctrl-C again that Python has lost, as it does in the middle of a finaliser."""
    if isinstance(lost.exc_value, KeyboardInterrupt):
        main_thread = threading.main_thread().ident
        threading.Timer(0.01, signal.pthread_kill, [main_thread, signal.SIGINT]).start()
    else:
        sys.__unraisablehook__(lost)


def _prepare_streams() -> None:
    """Let any text be printed on stdout and stderr.

    A character that the encoding of a stream lacks is replaced. What a closed stream gets is lost,
    and no file that is opened later takes its place.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # it gets the least number that is free, which is this
    sys.stdout, sys.stderr = (_open(stream) for stream in (sys.stdout, sys.stderr))


def _open(stream: TextIO | None) -> TextIO:
    """The stream; of one that was closed before the program began, one that keeps nothing."""
    if stream is None:
        return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="replace")
    return stream


def _abandon_output() -> None:
    """Let the rest of the output go nowhere, after its reader has gone."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(nowhere, descriptor)
