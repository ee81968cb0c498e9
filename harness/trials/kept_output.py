"""Keeps what a trial prints in this process, and shows it as before.

In a sweep the watchdog keeps the output of a worker (`harness.sweeps.workers.watchdog`).
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TextIO, cast

from harness.trials.bounded_log import BoundedLog


class _Both:
    """A stream whose text goes into a log as well; in all else it is that stream."""

    def __init__(self, stream: TextIO, log: BoundedLog) -> None:
        self._stream, self._log = stream, log

    def write(self, text: str) -> int:
        self._log.add(text.encode(errors="replace"))
        return self._stream.write(text)

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


@contextmanager
def kept_output(path: Path) -> Iterator[None]:
    """In the block, what Python prints goes into the log at `path`, too."""
    log = BoundedLog(path)
    out, err = (cast("TextIO", _Both(stream, log)) for stream in (sys.stdout, sys.stderr))
    try:
        with redirect_stdout(out), redirect_stderr(err):
            yield
    finally:
        log.close()
