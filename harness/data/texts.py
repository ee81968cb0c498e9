"""Texts of a corpus that need not be in memory: written to disk as they are read."""

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar, overload

from harness.scratch import Scratch

ITEMS_AT_ONCE = 10_000
"""Items that are in memory at once"""
T = TypeVar("T")


def slices(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """The items in lists of `size`; the last one may be shorter."""
    iterator = iter(items)
    while part := list(itertools.islice(iterator, size)):
        yield part


def text_columns(items: Iterable[Sequence[str]]) -> tuple[Sequence[str], ...]:
    """The first texts of all items, their second texts, and so on; () where there is no item.

    A corpus of less than `ITEMS_AT_ONCE` items is in lists, and a larger one in a scratch file.
    Raises UserError when the disk is full.
    """
    parts = slices(items, ITEMS_AT_ONCE)
    first = next(parts, [])
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


class _Stored(Sequence[str]):
    """One column in a scratch file, a line for each `ITEMS_AT_ONCE` texts."""

    def __init__(self, scratch: Scratch, places: list[int], count: int) -> None:
        self._scratch = scratch
        self._places = places
        self._count = count
        self._last: tuple[int, list[str]] = -1, []
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
