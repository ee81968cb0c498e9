"""The output of a trial: a file with its beginning and its end."""

from contextlib import suppress
from pathlib import Path

KEPT_BYTES = 512 * 1024
"""Of a longer output, so much of its beginning and so much of its end are kept"""


class BoundedLog:
    """A file that takes at most 1 MiB, however much is added.

    A file that cannot be written, for example on a full disk, loses output and raises nothing.
    """

    def __init__(self, path: Path) -> None:
        self._file = None
        with suppress(OSError):
            self._file = path.open("wb", buffering=0)
        self._head, self._total, self._tail = 0, 0, b""

    def add(self, data: bytes) -> None:
        """Add output."""
        head = data[: KEPT_BYTES - self._head]
        self._write(head)
        self._head += len(head)
        self._total += len(data)
        self._tail += data[len(head) :]
        if len(self._tail) > 2 * KEPT_BYTES:
            self._tail = self._tail[-KEPT_BYTES:]

    def close(self) -> None:
        """Write the end of the output."""
        end = self._tail[-KEPT_BYTES:]
        if left_out := self._total - self._head - len(end):
            self._write(b"\n[%d bytes are left out here]\n" % left_out)
        self._write(end)
        if self._file is not None:
            self._file.close()

    def _write(self, data: bytes) -> None:
        if self._file is not None:
            with suppress(OSError):
                self._file.write(data)


def last_lines(path: Path, characters: int) -> str:
    """The last whole lines of a text file; together they have at most so many characters.

    A single longer line is cut. The result is empty when there is no such file.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - 4 * characters))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    # Bars of progress end with \r; a terminal that shows the reason must not heed other controls.
    lines = "".join(
        char if char.isprintable() or char == "\t" else "\n" if char in "\r\n" else "?"
        for char in text
    )
    text = "\n".join(line for line in lines.splitlines() if line.strip())
    if len(text) <= characters:
        return text
    end = text[-characters:]
    return end.partition("\n")[2] or end
