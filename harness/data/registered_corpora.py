"""Sources of corpora: one of the papers, a table, or a corpus that a user's Python file registers.

The path of a file that registers a corpus is its name. The file and the data that it names are the
files of the corpus, so they are in keys and travel to the machines of a cluster.
"""

import functools
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness import PROTOCOL
from harness.data.hub import data_file
from harness.data.hub_tables import hub_files
from harness.data.readers import Corpus, read_table, shape_of, text_columns
from harness.data.shapes import ROLES, CorpusName, Shape, shape_of_roles, split_name
from harness.data.user_modules import UserCode, user_code
from harness.errors import UserError, explained, suggest
from harness.files import Stamp, digest, digest_files, digest_of
from harness.inputs import regular_file
from harness.relocation import here


class Source(ABC):
    """Place of a corpus, and the way in which it is read."""

    items: int | None = None
    """The published number of items, for a plan that is made before the files are here"""
    licence: str = ""
    """Licence of the texts, where it is known"""

    @property
    @abstractmethod
    def shape(self) -> Shape:
        """Kind of its items. Raises UserError for a table that cannot be read."""

    @property
    @abstractmethod
    def reading(self) -> str:
        """Way in which files become items. With their digest it names what caches hold of the
        corpus, because two corpora may read the same files and have different items"""

    @abstractmethod
    def paths(self, *, download: bool = True) -> list[Path]:
        """The files of the corpus.

        Raises UserError when one is in no mirror and, with `download`, not on the Hub either.
        """

    @abstractmethod
    def read(self, paths: list[Path]) -> Corpus:
        """The items of the files. Raises UserError for a damaged file."""

    def digest(self, paths: list[Path]) -> str:
        """The digest of the items of these files, which names what caches hold of them.

        The way in which files become items is a part of it, and changes with PROTOCOL.
        """
        return digest_of([digest_files(paths), self.reading, PROTOCOL])

    @property
    def labelled(self) -> bool:
        """Whether people labelled it, so that a share of the labels is a share of its items."""
        return self.shape in ("triplets", "scored pairs", "labelled pairs")

    def corpus(self, paths: list[Path]) -> Corpus:
        """The items of the files, which are those of `paths()`.

        Raises UserError for a damaged file, and for a corpus from which nothing can be learnt.
        """
        corpus = self.read(paths)
        if len(corpus) and not any(text.strip() for column in corpus.columns for text in column):
            raise UserError(f"{paths[0]} holds no sentence, only empty lines")
        if len(corpus) < 2:  # a contrastive loss compares items
            items = "1 item" if len(corpus) else "no item"
            raise UserError(f"{paths[0]} holds {items}; a corpus needs at least 2")
        return corpus


@dataclass(frozen=True)
class Known(Source):
    """A corpus of the papers, or a file that is laid out like one of theirs."""

    files: tuple[tuple[str, str], ...]
    """(repository of a data set, file in it), for each file; a user's file has no repository"""
    reader: Callable[[list[Path]], Corpus]
    """A function of harness.data.readers"""
    kind: Shape
    items: int | None = None
    judged: bool = False
    """Whether its pairs were made from labels"""
    licence: str = ""
    """Licence of the texts, where the source states one"""

    @property
    def shape(self) -> Shape:
        """Kind of its items."""
        return self.kind

    @property
    def labelled(self) -> bool:
        """Whether people labelled it."""
        return self.judged or super().labelled

    @property
    def reading(self) -> str:
        """The name of the reader."""
        return self.reader.__name__

    def paths(self, *, download: bool = True) -> list[Path]:
        """The files, from a mirror or from the Hub."""
        return [
            data_file(repository, name, download=download) if repository else Path(name)
            for repository, name in self.files
        ]

    def read(self, paths: list[Path]) -> Corpus:
        """The items of the files."""
        return self.reader(paths)


@dataclass(frozen=True)
class Table(Source):
    """A file or a data set of the Hub that the library `datasets` reads."""

    name: CorpusName
    file: Path | None
    """The file; None: a data set of the Hub"""

    @property
    def shape(self) -> Shape:
        """Kind of its items, as its name says, or else the names of its columns."""
        if self.name.columns:
            return shape_of_roles(self.name.columns)
        path = self.paths()[0]
        return _recognised(self.name.data, path, Stamp.of(path))

    @property
    def reading(self) -> str:
        """The part of its name behind the question mark, in short."""
        return f"table-{digest(split_name(str(self.name))[1])}"

    def paths(self, *, download: bool = True) -> list[Path]:
        """The file, or those of the split."""
        return [self.file] if self.file else hub_files(self.name.data, download=download)

    def read(self, paths: list[Path]) -> Corpus:
        """The items of the files."""
        return read_table(self.name, paths)


@functools.cache
def _recognised(data: str, path: Path, _: Stamp) -> Shape:
    """The shape of a table by its columns, which are looked at again when the file has changed."""
    return shape_of(CorpusName(data=data), path)[0]


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
        """Kind of its items."""
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
            for number, element in enumerate(self.registration.read(paths), start=1):
                single = roles == ("sentence",) and isinstance(element, str)
                item = (element,) if single else element
                if not (isinstance(item, tuple | list) and len(item) == len(roles)):
                    wanted = ", ".join(roles)
                    raise UserError(f"{self.code}: item {number} is {element!r}, not ({wanted})")
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
    registrations = [value for value in vars(module).values() if isinstance(value, Registration)]
    if len(registrations) != 1:
        raise UserError(
            f"{path} must hold one corpus, which is a function under @register_corpus; it holds "
            f"{len(registrations)}"
        )
    if registrations[0].shape not in ROLES:
        shape = str(registrations[0].shape)
        raise UserError(f'{path}: there is no shape "{shape}"{suggest(shape, ROLES)}')
    return Registered(path, registrations[0], registrations[0].licence)


def registers_corpus(path: Path) -> bool:
    """Whether a Python file is one of a corpus; another one may be that of a method."""
    return path.suffix == ".py" and path.is_file() and "register_corpus" in path.read_text("utf-8")
