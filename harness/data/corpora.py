"""Training corpora by name or file: unlabelled sentences, NLI triplets, NLI pairs."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.data.hub import data_file
from harness.data.readers import (
    Corpus,
    read_entailments,
    read_neighbours,
    read_nli_pairs,
    read_sentences,
    read_similar_pairs,
    read_triplets,
    read_triplets_as_pairs,
)
from harness.data.senteval import ARCHIVE, SIMCSE
from harness.errors import NotHere, UserError, suggest
from harness.inputs import regular_file
from harness.relocation import here

GRADED = "harness/graded-sentences"
"""The data set that comes with the project (harness.embedded)"""


@dataclass(frozen=True)
class Source:
    """Where a corpus lies, and how it is read."""

    files: tuple[tuple[str, str], ...]
    """(repository of a data set, file in it), for each file"""
    read: Callable[[list[Path]], Corpus]
    """A function of harness.data.readers"""
    items: int | None = None
    """The published number of items, for a plan that is made before the files are here"""
    labelled: bool = False
    """Whether people labelled it, so that a share of the labels is a share of its items"""

    def paths(self, *, download: bool = True) -> list[Path]:
        """The files of the corpus.

        Raises UserError when one is in no mirror and, with `download`, not on the Hub either.
        """
        return [data_file(repository, name, download=download) for repository, name in self.files]

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


SNLI, MULTI_NLI = "stanfordnlp/snli", "nyu-mll/multi_nli"
_NLI_TRAIN = (
    (SNLI, "plain_text/train-00000-of-00001.parquet"),
    (MULTI_NLI, "data/train-00000-of-00001.parquet"),
)
_SNLI_DEV = (SNLI, "plain_text/validation-00000-of-00001.parquet")
_SNLI_TEST = (SNLI, "plain_text/test-00000-of-00001.parquet")

# On the numbers of items see simcse.md, section 1.1, and clsr.md, section 3.
SOURCES: dict[str, Source] = {
    "wiki1m": Source(((SIMCSE, "wiki1m_for_simcse.txt"),), read_sentences, 1_000_000),
    "nli-triplets": Source(
        ((SIMCSE, "nli_for_simcse.csv"),), read_triplets, 275_601, labelled=True
    ),
    "nli-pairs": Source(_NLI_TRAIN, read_nli_pairs, 942_069, labelled=True),
    "nli-entailments": Source(_NLI_TRAIN, read_entailments, 314_315, labelled=True),
    "snli-dev": Source((_SNLI_DEV,), read_nli_pairs, 9_842, labelled=True),
    "snli-test": Source((_SNLI_TEST,), read_nli_pairs, 9_824, labelled=True),
    "snli-heldout": Source((_SNLI_DEV, _SNLI_TEST), read_nli_pairs, 19_666, labelled=True),
    "snli-heldout-entailments": Source(
        (_SNLI_DEV, _SNLI_TEST), read_entailments, 6_697, labelled=True
    ),
    "stsb-similar": Source(((SIMCSE, ARCHIVE),), read_similar_pairs, 1_406, labelled=True),
    "graded-sentences": Source(((GRADED, "sentences.txt"),), read_sentences),
    "graded-triplets": Source(((GRADED, "triplets.csv"),), read_triplets, labelled=True),
    "graded-pairs": Source(((GRADED, "triplets.csv"),), read_triplets_as_pairs, labelled=True),
}
READERS = {".txt": read_sentences, ".csv": read_triplets, ".parquet": read_nli_pairs}
"""Ending of a user's file -> its reader"""
NEIGHBOURS = "neighbours:"
"""What stands in front of the name of a file whose sentences are read in pairs of neighbours"""


def source(name: str) -> Source:
    """The corpus that `name` names.

    It is one of `SOURCES`, or a file: .txt with sentences, .csv with triplets, .parquet with NLI
    pairs, or `neighbours:FILE` with running text. Raises UserError when there is no such corpus.
    """
    path = file_of(name)
    if path is None:
        return SOURCES[name]
    path = here(path)
    if path.suffix not in READERS:
        raise UserError(
            f'unknown corpus "{name}"{suggest(name, SOURCES)} (or a .txt, .csv or .parquet file)'
        )
    regular_file(path, f'corpus "{name}": ')
    # Plain text has no labels; triplets and pairs have been labelled by people.
    read = read_neighbours if name.startswith(NEIGHBOURS) else READERS[path.suffix]
    return _FileSource((("", str(path.resolve())),), read, labelled=path.suffix != ".txt")


def file_of(name: str) -> Path | None:
    """The file that the name of a corpus is the path of; None for one of `SOURCES`."""
    return None if name in SOURCES else Path(name.removeprefix(NEIGHBOURS))


class _FileSource(Source):
    """A file of the user's, which is neither in a mirror nor on the Hub."""

    def paths(self, *, download: bool = True) -> list[Path]:
        return [Path(name) for _, name in self.files]


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
