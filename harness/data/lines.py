"""Lines of a text file, plain or packed, within bounds that no stranger's file exceeds."""

import functools
import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from harness.errors import UserError

LONGEST_LINE = 2**24
"""Bytes of a line, and of an item of a JSON list"""
SMALL_TEXT = 2**26
"""Bytes that a packed file may hold in any case"""
MOST_TIMES = 100
"""A packed file with more holds at most so many times its own size; text packs to a tenth"""
PACKED = ".gz"
_MARK = "\ufeff"
"""The byte order mark, which some programs write in front of a text"""


def unpacked_limit(path: Path) -> int:
    """The bytes that a packed file may hold."""
    return max(SMALL_TEXT, MOST_TIMES * path.stat().st_size)


def too_large(path: Path) -> UserError:
    """The refusal of a packed file that holds more than `unpacked_limit`."""
    return UserError(
        f"{path} holds more than {unpacked_limit(path)} bytes, which is the most that is read of a "
        f"packed file of its size; unpack it if you trust it"
    )


class _Unpacked(io.RawIOBase):
    """The content of a gzip file. Raises UserError for a damaged file and behind the limit."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path, self._left = path, unpacked_limit(path)
        self._file = gzip.GzipFile(path)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        try:
            count = self._file.readinto(buffer)
        except (OSError, EOFError, zlib.error) as error:
            raise UserError(f"{self._path} cannot be read: {error}") from None
        self._left -= count
        if self._left < 0:
            raise too_large(self._path)
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


def opened_file(path: Path) -> BinaryIO:
    """The content of a file, of a packed one (.gz) what is in it."""
    if path.suffix.lower() == PACKED:
        return io.BufferedReader(_Unpacked(path), 2**16)
    return path.open("rb")


def text_lines(path: Path) -> Iterator[str]:
    r"""The lines of a file, with the line ends as `\n`.

    A line ends at `\n` or `\r\n`; any other character is a part of the text. A byte order mark in
    front and blanks behind the last line end are no part of it. Raises UserError, with the line,
    for what is not UTF-8 and for a line above `LONGEST_LINE`.
    """
    with opened_file(path) as file:
        parts = iter(functools.partial(file.readline, LONGEST_LINE + 1), b"")
        for number, line in enumerate(parts, start=1):
            if len(line) > LONGEST_LINE:
                raise UserError(f"{path}, line {number}: it has more than {LONGEST_LINE} bytes")
            try:
                text = line.decode("utf-8")
            except UnicodeDecodeError:
                raise UserError(f"{path}, line {number}: not UTF-8 text") from None
            if number == 1:
                text = text.removeprefix(_MARK)
            if text.endswith("\n") or text.strip():
                yield text.replace("\r\n", "\n")
