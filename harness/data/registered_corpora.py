"""Sources of corpora: one of the papers, a table, or a corpus that a user's Python file registers.

The path of a file that registers a corpus is its name. The file and the data that it names are the
files of the corpus, so they are in keys and travel to the machines of a cluster.
"""

import functools
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from harness import PROTOCOL
from harness.data.hub import data_file
from harness.data.hub_tables import hub_files
from harness.data.readers import Corpus, numbers_of, read_table, shape_of
from harness.data.shapes import ROLES, CorpusName, Shape, shape_of_roles, split_name
from harness.data.texts import text_columns
from harness.data.user_modules import UserCode, listed_paths, user_code
from harness.errors import UserError, explained, suggest
from harness.files import Stamp, digest, digest_files, digest_of
from harness.inputs import regular_file
from harness.relocation import here


@dataclass(frozen=True)
class Source:
    """Place of a corpus, and the way in which it is read."""

    _shape: Callable[[], Shape]
    _paths: Callable[[bool], list[Path]]
    read: Callable[[list[Path]], Corpus]
    """Files -> their items. Raises UserError for a damaged file"""
    reading: str
    """Way in which files become items. With their digest it names what caches hold of the corpus,
    because two corpora may read the same files and have different items"""
    items: int | None = None
    """The published number of items, for a plan that is made before the files are here"""
    licence: str = ""
    """Licence of the texts, where it is known"""
    judged: bool = False
    """Whether its pairs were made from labels"""

    @property
    def shape(self) -> Shape:
        """Kind of its items. Raises UserError for a table that cannot be read."""
        return self._shape()

    def paths(self, *, download: bool = True) -> list[Path]:
        """The files of the corpus.

        Raises UserError when one is in no mirror and, with `download`, not on the Hub either.
        """
        return self._paths(download)

    def digest(self, paths: list[Path]) -> str:
        """The digest of the items of these files, which names what caches hold of them.

        The way in which files become items is a part of it, and changes with PROTOCOL.
        """
        return digest_of([digest_files(paths), self.reading, PROTOCOL])

    @property
    def labelled(self) -> bool:
        """Whether people labelled it, so that a share of the labels is a share of its items."""
        return self.judged or self.shape in ("triplets", "scored pairs", "labelled pairs")

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


def known(
    files: Sequence[tuple[str, str]],
    reader: Callable[[list[Path]], Corpus],
    shape: Shape,
    items: int | None = None,
    **options: Any,
) -> Source:
    """A corpus of the papers, or a file that is laid out like one of theirs.

    files: (repository of a data set, file in it); a user's file has no repository. reader: a
    function of harness.data.readers. options: `licence` and `judged` of Source.
    """

    def paths(download: bool) -> list[Path]:
        return [
            data_file(repository, name, download=download) if repository else Path(name)
            for repository, name in files
        ]

    return Source(lambda: shape, paths, reader, reader.__name__, items, **options)


def table(name: CorpusName, file: Path | None) -> Source:
    """A file, or a data set of the Hub that the library `datasets` reads (`file` is None)."""

    def paths(download: bool) -> list[Path]:
        return [file] if file else hub_files(name.data, download=download)

    def shape() -> Shape:
        if name.columns:
            return shape_of_roles(name.columns)
        path = paths(True)[0]
        return _recognised(name.data, path, Stamp.of(path))

    # The part of its name behind the question mark, in short.
    reading = f"table-{digest(split_name(str(name))[1])}"
    return Source(shape, paths, functools.partial(read_table, name), reading)


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


def _read(code: Path, registration: Registration, paths: list[Path]) -> Corpus:
    """The items that the function yields. Raises UserError for one that is not of the shape."""
    number = ROLES[registration.shape][-1]  # no shape has two, and it stands last
    numbers = array("d")

    def texts() -> Iterator[tuple[str, ...]]:
        for item in _items(code, registration, paths[:-1]):
            if number in NUMBERS:
                numbers.append(item[-1])
            yield item[:-1] if number in NUMBERS else item

    columns = text_columns(texts(), f"{code} yields no item")
    if number not in NUMBERS:
        return Corpus(columns)
    return Corpus(columns, numbers_of(numbers, "float32" if number == "score" else "int64"))


def _items(code: Path, registration: Registration, paths: list[Path]) -> Iterator[tuple[Any, ...]]:
    roles = ROLES[registration.shape]
    with explained(f"{code} cannot be read: "):
        for number, element in enumerate(registration.read(paths), start=1):
            single = roles == ("sentence",) and isinstance(element, str)
            item = (element,) if single else element
            if not (isinstance(item, tuple | list) and len(item) == len(roles)):
                wanted = ", ".join(roles)
                raise UserError(f"{code}: item {number} is {element!r}, not ({wanted})")
            for value, role in zip(item, roles, strict=True):
                if not _fits(value, role):
                    raise UserError(f"{code}: the {role} of item {number} is {value!r}")
            # An empty text is a single space (simcse.md, section 1.1).
            yield tuple(value.strip() or " " if isinstance(value, str) else value for value in item)


def _fits(value: Any, role: str) -> bool:
    """Whether a value of an item is what its role says."""
    if role == "score":
        return isinstance(value, int | float) and isfinite(value)
    return value in (0, 1, 2) if role == "label" else isinstance(value, str)


def registered(path: Path) -> Source:
    """The corpus that a Python file registers.

    Raises UserError when its import fails, and when it does not hold exactly one.
    """
    regular_file(path, "corpus: ")
    return _registered(user_code(path.resolve(), "corpus: "))


@functools.cache
def _registered(code: UserCode) -> Source:
    """The corpus of a file; one that has changed has another digest and is read again."""
    module, path = code.module("corpus"), code.path
    registrations = [value for value in vars(module).values() if isinstance(value, Registration)]
    if len(registrations) != 1:
        raise UserError(
            f"{path} must hold one corpus, which is a function under @register_corpus; it holds "
            f"{len(registrations)}"
        )
    [registration] = registrations
    shape = registration.shape
    if shape not in ROLES:
        raise UserError(f'{path}: there is no shape "{shape}"{suggest(str(shape), ROLES)}')

    def paths(_: bool) -> list[Path]:
        given = listed_paths(registration.files, path)
        data = [regular_file(here(each), f"{path}: ").resolve() for each in given]
        # The file itself is one of the files, so a change of it makes another corpus.
        return [*data, path]

    read = functools.partial(_read, path, registration)
    return Source(lambda: shape, paths, read, "registered", licence=registration.licence)


def registers_corpus(path: Path) -> bool:
    """Whether a Python file is one of a corpus; another one may be that of a method."""
    return path.suffix == ".py" and path.is_file() and "register_corpus" in path.read_text("utf-8")
