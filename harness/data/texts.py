"""Columns of texts: in memory, or in a scratch file where they are many."""

import itertools
import json
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from tempfile import SpooledTemporaryFile
from typing import IO, TYPE_CHECKING, Any, TypeVar, overload

from harness.errors import UserError
from harness.files import cache_folder
from harness.inputs import why

if TYPE_CHECKING:
    import numpy as np

IN_MEMORY = 4 * 2**20
"""Bytes up to which the content of a scratch file is in memory"""
ITEMS_AT_ONCE = 10_000
"""Items that are in memory at once"""
T = TypeVar("T")


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

    def array(self, kind: "type[np.generic]") -> "np.ndarray[Any, Any]":
        """The whole content as numbers, (elements,); memory-mapped when it is large."""
        import numpy as np

        if self._size <= IN_MEMORY:
            self._file.seek(0)
            return np.frombuffer(self._file.read(), kind)
        self._file.flush()
        return np.memmap(self._file, kind, "r")


def _file() -> IO[bytes]:
    return SpooledTemporaryFile(IN_MEMORY, dir=str(cache_folder()))


def slices(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """The items in lists of `size`; the last one may be shorter."""
    iterator = iter(items)
    while part := list(itertools.islice(iterator, size)):
        yield part


def text_columns(items: Iterable[Sequence[str]], no_item: str) -> tuple[Sequence[str], ...]:
    """The first texts of all items, their second texts, and so on.

    A corpus of less than `ITEMS_AT_ONCE` items is in lists, and a larger one in a scratch file.
    Raises UserError when the disk is full, and with the sentence `no_item` where there is none.
    """
    parts = slices(items, ITEMS_AT_ONCE)
    first = next(parts, [])
    if not first:
        raise UserError(no_item)
    if len(first) < ITEMS_AT_ONCE:
        return tuple(map(list, zip(*first, strict=True)))
    scratch, count = Scratch(), 0
    places: list[list[int]] = [[] for _ in first[0]]
    for part in itertools.chain([first], parts):
        count += len(part)
        for column, texts in zip(places, zip(*part, strict=True), strict=True):
            # JSON has no line end inside, and holds any text that Python does.
            column.append(scratch.append(json.dumps(texts).encode() + b"\n"))
    return tuple(_Stored(scratch, column, count) for column in places)


@dataclass(eq=False)
class _Stored(Sequence[str]):
    """One column in a scratch file, a line for each `ITEMS_AT_ONCE` texts."""

    _scratch: Scratch
    _places: list[int]
    _count: int
    _last: tuple[int, list[str]] = -1, []
    """The part that was read last, with its number; the next text is mostly there"""

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[str]:
        for place in self._places:
            yield from self._slice(place)

    @overload
    def __getitem__(self, key: int) -> str: ...
    @overload
    def __getitem__(self, key: slice) -> list[str]: ...
    def __getitem__(self, key: int | slice) -> str | list[str]:
        if isinstance(key, slice):
            return [self[item] for item in range(self._count)[key]]
        part, within = divmod(range(self._count)[key], ITEMS_AT_ONCE)
        known, texts = self._last
        if known != part:
            texts = self._slice(self._places[part])
            self._last = part, texts
        return texts[within]

    def _slice(self, place: int) -> list[str]:
        texts: list[str] = json.loads(self._scratch.line(place))
        return texts
