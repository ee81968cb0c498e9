"""Output of verbs, in which no text of others gives orders to a terminal."""

import io
import os
import sys
from typing import TextIO

import typer

from harness.errors import visible


def echo(text: str, *, nl: bool = True, err: bool = False) -> None:
    """Print a text, with what a terminal would obey shown by its escapes.

    nl: whether a line end follows. err: whether it goes to stderr.
    """
    typer.echo(visible(text), nl=nl, err=err)


def prepare_streams() -> None:
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


def abandon_output() -> None:
    """Let the rest of the output go nowhere, after its reader has gone."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(nowhere, descriptor)
