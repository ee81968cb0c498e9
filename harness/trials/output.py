"""The output of a trial: a file with the beginning and the end of each attempt."""

import platform
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO, cast

from harness.inputs import opened_itself

KEPT_BYTES = 512 * 1024
"""Bytes of the beginning, and of the end, that are kept of a longer output"""
ATTEMPT = b"== an attempt on "
"""The beginning of the line above the output of an attempt"""
ENDED = b"\n== its process ended ==\n"
"""The line below the output of an attempt whose process ended before the attempt did"""


class BoundedLog:
    """The output of one attempt, at most 1 MiB of it, however much is added.

    It follows that of earlier attempts, of which at most the last 1 MiB stays.

    A file that cannot be written, for example on a full disk, loses output and raises nothing.
    """

    def __init__(self, path: Path) -> None:
        self._file = None
        with suppress(OSError):
            _shorten(path)
            self._file = path.open("ab", buffering=0)
        self._head, self._total, self._tail = 0, 0, b""
        began = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        self._write(ATTEMPT + f"{platform.node()}, {began} ==\n".encode())

    def add(self, data: bytes) -> None:
        """Add output."""
        head = data[: KEPT_BYTES - self._head]
        self._write(head)
        self._head += len(head)
        self._total += len(data)
        self._tail += data[len(head) :]
        if len(self._tail) > 2 * KEPT_BYTES:
            self._tail = self._tail[-KEPT_BYTES:]

    def close(self, *, ended: bool = False) -> None:
        """Write the end of the output. `ended`: whether its process ended before the attempt."""
        end = self._tail[-KEPT_BYTES:]
        if left_out := self._total - self._head - len(end):
            self._write(b"\n[%d bytes are left out here]\n" % left_out)
        self._write(end + ENDED * ended)
        if self._file is not None:
            self._file.close()

    def _write(self, data: bytes) -> None:
        if self._file is not None:
            with suppress(OSError):
                self._file.write(data)


def _shorten(path: Path) -> None:
    """Leave the last 1 MiB of a file, and nothing of a link or of what else is no log."""
    try:
        with opened_itself(path) as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - 2 * KEPT_BYTES))
            kept = file.read()
    except FileNotFoundError:
        return
    except OSError:
        path.unlink()
        return
    if size > len(kept):
        path.write_bytes(b"[earlier output is left out]\n" + kept)


def printable(text: str) -> str:
    """Output as a terminal may show it, which must not heed the controls that are in it."""
    # Bars of progress end with \r.
    return "".join(
        char if char.isprintable() or char == "\t" else "\n" if char in "\r\n" else "?"
        for char in text
    )


def last_lines(path: Path, characters: int) -> str:
    """The last whole lines of the last attempt; together they have at most so many characters.

    A single longer line is cut. The result is empty when there is no such file.
    """
    try:
        with opened_itself(path) as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - 4 * characters))
            content = file.read()
    except OSError:
        return ""
    _, attempt, output = content.rpartition(ATTEMPT)
    if attempt:
        content = output.partition(b"\n")[2]
    lines = printable(content.removesuffix(ENDED).decode("utf-8", "replace"))
    text = "\n".join(line for line in lines.splitlines() if line.strip())
    if len(text) <= characters:
        return text
    end = text[-characters:]
    return end.partition("\n")[2] or end


def wait_for_end(path: Path, seconds: float) -> None:
    """Wait until the output of an attempt whose process ended is whole, if there is such a file."""
    until = time.monotonic() + seconds
    while path.exists() and time.monotonic() < until:
        with suppress(OSError), opened_itself(path) as file:
            file.seek(-len(ENDED), 2)
            if file.read() == ENDED:
                return
        time.sleep(0.05)


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
