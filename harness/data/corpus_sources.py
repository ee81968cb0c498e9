"""Where a corpus lies and how it is read: one of the papers, or a table."""

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness import PROTOCOL
from harness.data.corpus_names import CorpusName, split_name
from harness.data.hub import data_file
from harness.data.hub_tables import hub_files
from harness.data.readers import Corpus
from harness.data.shapes import Shape, shape_of_roles
from harness.data.tables import read_table, shape_of
from harness.errors import UserError
from harness.files import Stamp, digest, digest_files, digest_of


class Source(ABC):
    """Where a corpus lies, and how it is read."""

    items: int | None = None
    """The published number of items, for a plan that is made before the files are here"""
    licence: str = ""
    """That of the texts, where it is known"""

    @property
    @abstractmethod
    def shape(self) -> Shape:
        """What its items are. Raises UserError for a table that cannot be read."""

    @property
    @abstractmethod
    def reading(self) -> str:
        """How the files become items; with their digest it names what caches hold of the corpus,
        because two corpora may read the same files and have different items"""

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
        found = self.read(paths)
        if len(found) and not any(text.strip() for column in found.columns for text in column):
            raise UserError(f"{paths[0]} holds no sentence, only empty lines")
        if len(found) < 2:  # a contrastive loss compares items
            items = "1 item" if len(found) else "no item"
            raise UserError(f"{paths[0]} holds {items}; a corpus needs at least 2")
        return found


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
    """That of the texts, where the source states one"""

    @property
    def shape(self) -> Shape:
        """What its items are."""
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
        """What its items are, as its name says, or else the names of its columns."""
        if self.name.columns:
            return shape_of_roles(self.name.columns)
        return _recognised(self.name, self.paths()[0])

    @property
    def reading(self) -> str:
        """What its name says behind the question mark, in short."""
        return f"table-{digest(split_name(str(self.name))[1])}"

    def paths(self, *, download: bool = True) -> list[Path]:
        """The file, or those of the split."""
        return [self.file] if self.file else hub_files(self.name.data, download=download)

    def read(self, paths: list[Path]) -> Corpus:
        """The items of the files."""
        return read_table(self.name, paths)


def _recognised(name: CorpusName, path: Path) -> Shape:
    """The shape of a table by its columns, which are looked at again when the file has changed."""
    return _recognised_at(name.data, path, Stamp.of(path))


@functools.cache
def _recognised_at(data: str, path: Path, _: Stamp) -> Shape:
    return shape_of(CorpusName(data=data), path)[0]
