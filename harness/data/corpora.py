"""Training corpora by name, by file, or by their name on the Hub."""

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.data.corpus_names import CorpusName, parsed
from harness.data.hub import data_file
from harness.data.hub_tables import hub_files, is_hub_name
from harness.data.readers import (
    Corpus,
    is_triplet_file,
    read_entailments,
    read_neighbours,
    read_nli_pairs,
    read_scored_pairs,
    read_sentences,
    read_similar_pairs,
    read_triplets,
    read_triplets_as_pairs,
    read_triplets_as_scored_pairs,
)
from harness.data.senteval import ARCHIVE, SIMCSE
from harness.data.shapes import Shape, shape_of_roles
from harness.data.tables import BUILDERS, ending, read_table, shape_of
from harness.errors import NotHere, UserError, suggest
from harness.files import digest
from harness.inputs import regular_file
from harness.relocation import here

GRADED = "harness/graded-sentences"
"""The data set that comes with the project (harness.embedded)"""


class Source(ABC):
    """Where a corpus lies, and how it is read."""

    items: int | None = None
    """The published number of items, for a plan that is made before the files are here"""

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
        return f"table-{digest(str(self.name).partition('?')[2])}"

    def paths(self, *, download: bool = True) -> list[Path]:
        """The file, or those of the split."""
        return [self.file] if self.file else hub_files(self.name.data, download=download)

    def read(self, paths: list[Path]) -> Corpus:
        """The items of the files."""
        return read_table(self.name, paths)


SNLI, MULTI_NLI = "stanfordnlp/snli", "nyu-mll/multi_nli"
_NLI_TRAIN = (
    (SNLI, "plain_text/train-00000-of-00001.parquet"),
    (MULTI_NLI, "data/train-00000-of-00001.parquet"),
)
_SNLI_DEV = (SNLI, "plain_text/validation-00000-of-00001.parquet")
_SNLI_TEST = (SNLI, "plain_text/test-00000-of-00001.parquet")

# On the numbers of items see simcse.md, section 1.1, and clsr.md, section 3.
_SHARE_ALIKE = "CC BY-SA"
_SNLI = "CC BY-SA 4.0"
SOURCES: dict[str, Known] = {
    "wiki1m": Known(
        ((SIMCSE, "wiki1m_for_simcse.txt"),), read_sentences, "sentences", 1_000_000,
        licence=_SHARE_ALIKE,
    ),
    "nli-triplets": Known(
        ((SIMCSE, "nli_for_simcse.csv"),), read_triplets, "triplets", 275_601,
        licence="of SNLI and MultiNLI",
    ),
    "nli-pairs": Known(
        _NLI_TRAIN, read_nli_pairs, "labelled pairs", 942_069, licence="of SNLI and MultiNLI"
    ),
    "nli-entailments": Known(
        _NLI_TRAIN, read_entailments, "pairs", 314_315, judged=True, licence="of SNLI and MultiNLI"
    ),
    "snli-dev": Known((_SNLI_DEV,), read_nli_pairs, "labelled pairs", 9_842, licence=_SNLI),
    "snli-test": Known((_SNLI_TEST,), read_nli_pairs, "labelled pairs", 9_824, licence=_SNLI),
    "snli-heldout": Known(
        (_SNLI_DEV, _SNLI_TEST), read_nli_pairs, "labelled pairs", 19_666, licence=_SNLI
    ),
    "snli-heldout-entailments": Known(
        (_SNLI_DEV, _SNLI_TEST), read_entailments, "pairs", 6_697, judged=True, licence=_SNLI
    ),
    "stsb-similar": Known(
        ((SIMCSE, ARCHIVE),), read_similar_pairs, "pairs", 1_406, judged=True, licence=_SNLI
    ),
    "stsb-train": Known(
        ((SIMCSE, ARCHIVE),), read_scored_pairs, "scored pairs", 5_749, licence=_SNLI
    ),
    "graded-sentences": Known(((GRADED, "sentences.txt"),), read_sentences, "sentences"),
    "graded-triplets": Known(((GRADED, "triplets.csv"),), read_triplets, "triplets"),
    "graded-scored-pairs": Known(
        ((GRADED, "triplets.csv"),), read_triplets_as_scored_pairs, "scored pairs"
    ),
    "graded-pairs": Known(
        ((GRADED, "triplets.csv"),), read_triplets_as_pairs, "labelled pairs"
    ),
}  # fmt: skip
NEIGHBOURS = "neighbours:"
"""What stands in front of the name of a file whose sentences are read in pairs of neighbours"""


def source(name: str) -> Source:
    """The corpus that `name` names.

    It is one of `SOURCES`, a file, `neighbours:FILE` with running text, or a data set of the Hub as
    ORGANISATION/NAME[/CONFIG][:SPLIT]; harness.data.corpus_names says what may stand behind it.
    Raises UserError when there is no such corpus.
    """
    if name in SOURCES:
        return SOURCES[name]
    path = file_of(name)
    if path is None:
        table = parsed(name)
        if not is_hub_name(table.data):
            raise UserError(
                f'unknown corpus "{name}"{suggest(name, SOURCES)} (or a file, or a data set of the '
                f"Hub as ORGANISATION/NAME[/CONFIG][:SPLIT])"
            )
        return Table(table, None)
    path = regular_file(here(path), f'corpus "{name}": ').resolve()
    files = (("", str(path)),)
    if name.startswith(NEIGHBOURS):
        return Known(files, read_neighbours, "neighbours")
    if "?" not in name and path.suffix == ".txt":
        return Known(files, read_sentences, "sentences")
    if "?" not in name and path.suffix == ".csv" and is_triplet_file(path):
        return Known(files, read_triplets, "triplets")
    return Table(parsed(name), path)


def file_of(name: str) -> Path | None:
    """The file that a corpus names by its path; None for one of `SOURCES` and one of the Hub."""
    if name in SOURCES:
        return None
    if name.startswith(NEIGHBOURS):
        return Path(name.removeprefix(NEIGHBOURS))
    path = Path(name.partition("?")[0])
    return path if ending(path) in BUILDERS else None


def count_items(name: str) -> int | None:
    """The number of items of a corpus, counted where it is at hand, else as published.

    None: it is not at hand, and no number is published. Raises UserError for an unknown corpus.
    """
    found = source(name)
    try:
        paths = found.paths(download=False)
    except NotHere:
        return found.items
    return _counted(name, tuple((str(path), path.stat().st_mtime_ns) for path in paths))


# Kept, since a plan asks once a round and a corpus may have a million lines.
@functools.cache
def _counted(name: str, files: tuple[tuple[str, int], ...]) -> int:
    """Count the items of a corpus with these files; their times make a changed file a new entry."""
    return len(source(name).corpus([Path(path) for path, _ in files]))


def _recognised(name: CorpusName, path: Path) -> Shape:
    """The shape of a table by its columns, which are looked at again when the file has changed."""
    return _recognised_at(name.data, path, path.stat().st_mtime_ns)


@functools.cache
def _recognised_at(data: str, path: Path, _changed: int) -> Shape:
    return shape_of(CorpusName(data=data), path)[0]
