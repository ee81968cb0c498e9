"""Corpora that a user's Python file registers, as files register suites.

The path of the file is the name of the corpus. The file and the data that it names are the files of
the corpus, so they are in keys and travel to the machines of a cluster.
"""

import functools
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.data.corpus_sources import Source
from harness.data.readers import Corpus
from harness.data.shapes import ROLES, Shape
from harness.data.texts import text_columns
from harness.data.user_modules import UserCode, user_code
from harness.errors import UserError, explained, suggest
from harness.inputs import regular_file
from harness.relocation import here

NUMBERS = ("label", "score")
"""The roles that are numbers and no texts"""


@dataclass(frozen=True, eq=False)
class Registration:
    """A function that reads a corpus, and what is said of it."""

    shape: Shape
    read: Callable[[list[Path]], Iterable[Any]]
    files: Callable[[], list[Path]]
    licence: str


def register_corpus(
    shape: Shape, files: Callable[[], list[Path]], licence: str = ""
) -> Callable[[Callable[[list[Path]], Iterable[Any]]], Registration]:
    """Decorator that makes a corpus of a function.

    The function gets the paths of `files` and yields items. shape: `sentences`, whose items are
    texts, or another one, whose items are tuples in the order of its roles: (first, second),
    (premise, entailment, contradiction), (first, second, score), (premise, hypothesis, label 0 to
    2). licence: that of the texts, for `harness list corpora`.
    """
    return lambda read: Registration(shape, read, files, licence)


@dataclass(frozen=True)
class Registered(Source):
    """The corpus of a user's Python file."""

    code: Path
    registration: Registration
    licence: str = ""

    reading = "registered"
    """The file itself is one of the files, so a change of it makes another corpus"""

    @property
    def shape(self) -> Shape:
        """What its items are."""
        return self.registration.shape

    def paths(self, *, download: bool = True) -> list[Path]:
        """The data, and the Python file last."""
        with explained(f"{self.code}: files() raises "):
            given = self.registration.files()
        if not (isinstance(given, list) and all(isinstance(each, Path) for each in given)):
            raise UserError(f"{self.code}: files() must give a list of paths, not {given!r}")
        data = [regular_file(here(path), f"{self.code}: ").resolve() for path in given]
        return [*data, self.code]

    def read(self, paths: list[Path]) -> Corpus:
        """The items that the function yields. Raises UserError for one that is not of the shape."""
        number = ROLES[self.shape][-1]  # no shape has two, and it stands last
        numbers = array("d")

        def texts() -> Iterator[tuple[str, ...]]:
            for item in self._items(paths[:-1]):
                if number in NUMBERS:
                    numbers.append(item[-1])
                yield item[:-1] if number in NUMBERS else item

        columns = text_columns(texts())
        if not columns:
            raise UserError(f"{self.code} yields no item")
        if number not in NUMBERS:
            return Corpus(columns)
        kind = np.float32 if number == "score" else np.int64
        return Corpus(columns, np.asarray(numbers, kind))

    def _items(self, paths: list[Path]) -> Iterator[tuple[Any, ...]]:
        roles = ROLES[self.shape]
        with explained(f"{self.code} cannot be read: "):
            for number, given in enumerate(self.registration.read(paths), start=1):
                item = (given,) if roles == ("sentence",) and isinstance(given, str) else given
                if not (isinstance(item, tuple | list) and len(item) == len(roles)):
                    wanted = ", ".join(roles)
                    raise UserError(f"{self.code}: item {number} is {given!r}, not ({wanted})")
                pairs = zip(roles, item, strict=True)
                yield tuple(self._value(value, role, number) for role, value in pairs)

    def _value(self, value: Any, role: str, number: int) -> Any:
        """A value of an item; an empty text is a single space (simcse.md, section 1.1)."""
        if role not in NUMBERS and isinstance(value, str):
            return value.strip() or " "
        if role == "score" and isinstance(value, int | float) and np.isfinite(value):
            return value
        if role == "label" and value in (0, 1, 2):
            return value
        raise UserError(f"{self.code}: the {role} of item {number} is {value!r}")


def registered(path: Path) -> Registered:
    """The corpus that a Python file registers.

    Raises UserError when its import fails, and when it does not hold exactly one.
    """
    regular_file(path, "corpus: ")
    return _registered(user_code(path.resolve(), "corpus: "))


@functools.cache
def _registered(code: UserCode) -> Registered:
    """The corpus of a file; one that has changed has another digest and is read again."""
    module, path = code.module("corpus"), code.path
    found = [value for value in vars(module).values() if isinstance(value, Registration)]
    if len(found) != 1:
        raise UserError(
            f"{path} must hold one corpus, which is a function under @register_corpus; it holds "
            f"{len(found)}"
        )
    if found[0].shape not in ROLES:
        shape = str(found[0].shape)
        raise UserError(f'{path}: there is no shape "{shape}"{suggest(shape, ROLES)}')
    return Registered(path, found[0], found[0].licence)


def registers_corpus(path: Path) -> bool:
    """Whether a Python file is one of a corpus; another one may be that of a method."""
    return path.suffix == ".py" and path.is_file() and "register_corpus" in path.read_text("utf-8")
