"""Scratch files: what is made piece by piece and may be larger than memory."""

import weakref
from tempfile import SpooledTemporaryFile
from typing import IO, Any

import numpy as np

from harness.errors import UserError
from harness.files import cache_folder
from harness.inputs import why

IN_MEMORY = 4 * 2**20
"""Bytes up to which the content of a scratch file is in memory"""


class Scratch:
    """A file in the cache folder that has no name, so nothing is left of it when its user ends."""

    def __init__(self) -> None:
        self._file = _file()
        self._size = 0
        weakref.finalize(self, self._file.close)

    def append(self, content: bytes) -> int:
        """Write behind what is there; returns the byte where the content begins.

        Raises UserError when the disk is full.
        """
        begin = self._size
        try:
            cache_folder().mkdir(parents=True, exist_ok=True)
            self._file.write(content)
        except OSError as error:
            raise UserError(
                f"the cache {cache_folder()} cannot be written ({why(error)}), and a corpus is too "
                f"large for memory; set HARNESS_CACHE to a folder with room"
            ) from None
        self._size += len(content)
        return begin

    def line(self, begin: int) -> bytes:
        """The line that begins at a byte. Nothing is appended after the first reading."""
        self._file.seek(begin)
        return self._file.readline()

    def array(self, kind: type[np.generic]) -> np.ndarray[Any, Any]:
        """The whole content as numbers, (elements,); memory-mapped when it is large."""
        if self._size <= IN_MEMORY:
            self._file.seek(0)
            return np.frombuffer(self._file.read(), kind)
        self._file.flush()
        return np.memmap(self._file, kind, "r")


def _file() -> IO[bytes]:
    return SpooledTemporaryFile(IN_MEMORY, mode="w+b", dir=str(cache_folder()))
