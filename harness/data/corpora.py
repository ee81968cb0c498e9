"""Training corpora by name, by file, or by their name on the Hub."""

import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from harness.data.hub import once
from harness.data.hub_tables import is_hub_name
from harness.data.readers import (
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
from harness.data.registered_corpora import Source, known, registered, registers_corpus, table
from harness.data.rows import FORMATS, ending, known_endings
from harness.data.senteval import ARCHIVE, SIMCSE
from harness.data.shapes import parsed, split_name
from harness.errors import NotHere, UserError, suggest
from harness.files import Stamp
from harness.inputs import regular_file
from harness.relocation import here

GRADED = "harness/graded-sentences"
"""The data set that comes with the project (harness.embedded)"""


SNLI, MULTI_NLI = "stanfordnlp/snli", "nyu-mll/multi_nli"
_NLI_TRAIN = (
    (SNLI, "plain_text/train-00000-of-00001.parquet"),
    (MULTI_NLI, "data/train-00000-of-00001.parquet"),
)
_SNLI_DEV = (SNLI, "plain_text/validation-00000-of-00001.parquet")
_SNLI_TEST = (SNLI, "plain_text/test-00000-of-00001.parquet")
_HELDOUT, _STSB = (_SNLI_DEV, _SNLI_TEST), ((SIMCSE, ARCHIVE),)
_WIKI = ((SIMCSE, "wiki1m_for_simcse.txt"),)
_TRIPLETS = ((GRADED, "triplets.csv"),)

# On the numbers of items see simcse.md, section 1.1, and clsr.md, section 3.
_SNLI, _BOTH = "CC BY-SA 4.0", "of SNLI and MultiNLI"
SOURCES: dict[str, Source] = {
    "wiki1m": known(_WIKI, read_sentences, "sentences", 1_000_000, licence="CC BY-SA"),
    "nli-triplets": known(
        ((SIMCSE, "nli_for_simcse.csv"),), read_triplets, "triplets", 275_601, licence=_BOTH
    ),
    "nli-pairs": known(_NLI_TRAIN, read_nli_pairs, "labelled pairs", 942_069, licence=_BOTH),
    "nli-entailments": known(
        _NLI_TRAIN, read_entailments, "pairs", 314_315, judged=True, licence=_BOTH
    ),
    "snli-dev": known((_SNLI_DEV,), read_nli_pairs, "labelled pairs", 9_842, licence=_SNLI),
    "snli-test": known((_SNLI_TEST,), read_nli_pairs, "labelled pairs", 9_824, licence=_SNLI),
    "snli-heldout": known(_HELDOUT, read_nli_pairs, "labelled pairs", 19_666, licence=_SNLI),
    "snli-heldout-entailments": known(
        _HELDOUT, read_entailments, "pairs", 6_697, judged=True, licence=_SNLI
    ),
    "stsb-similar": known(_STSB, read_similar_pairs, "pairs", 1_406, judged=True, licence=_SNLI),
    "stsb-train": known(_STSB, read_scored_pairs, "scored pairs", 5_749, licence=_SNLI),
    "graded-sentences": known(((GRADED, "sentences.txt"),), read_sentences, "sentences"),
    "graded-triplets": known(_TRIPLETS, read_triplets, "triplets"),
    "graded-scored-pairs": known(_TRIPLETS, read_triplets_as_scored_pairs, "scored pairs"),
    "graded-pairs": known(_TRIPLETS, read_triplets_as_pairs, "labelled pairs"),
}
PYTHON = ".py"
"""The ending of a file that registers a corpus"""
NEIGHBOURS = "neighbours:"
"""Prefix of the name of a file whose sentences are read in pairs of neighbours"""


def source(name: str) -> Source:
    """The corpus that `name` names.

    It is one of `SOURCES`, a file, a Python file that registers one, `neighbours:FILE` with running
    text, or a data set of the Hub as ORGANISATION/NAME[@REVISION][/CONFIG][:SPLIT];
    harness.data.shapes says what may stand behind it.
    Raises UserError when there is no such corpus.
    """
    if name in SOURCES:
        return SOURCES[name]
    path, (data, query) = file_of(name), split_name(name)
    if data in SOURCES:
        raise UserError(
            f'corpus "{name}": {data} is read as a whole; only files and data sets of the Hub have '
            f"options behind a question mark"
        )
    if path is None:
        parts = parsed(name)
        if not is_hub_name(parts.data):
            if os.path.isfile(here(Path(parts.data))):  # noqa: PTH113 - it takes any text
                raise UserError(f'corpus "{name}" is there, but only {known_endings()} are read')
            raise UserError(
                f'unknown corpus "{name}"{suggest(name, SOURCES)} (or a file, or a data set of the '
                f"Hub as ORGANISATION/NAME[@REVISION][/CONFIG][:SPLIT])"
            )
        return table(parts, None)
    path = regular_file(here(path), f'corpus "{name}": ').resolve()
    if path.suffix == PYTHON:
        if query or name.startswith(NEIGHBOURS):
            raise UserError(f'corpus "{name}": a Python file is named by its path alone')
        return registered(path)
    files = (("", str(path)),)
    if name.startswith(NEIGHBOURS):
        if ending(path) in FORMATS.keys() - {".txt"}:
            raise UserError(
                f'corpus "{name}": neighbours are read of running text, one sentence a line, and '
                f"a {ending(path)} file is a table"
            )
        return known(files, read_neighbours, "neighbours")
    if not query and path.suffix.lower() == ".txt":
        return known(files, read_sentences, "sentences")
    return table(parsed(name), path)


def file_of(name: str) -> Path | None:
    """The file that a corpus names by its path; None for one of `SOURCES` and one of the Hub."""
    if name in SOURCES:
        return None
    if name.startswith(NEIGHBOURS):
        return Path(name.removeprefix(NEIGHBOURS))
    path = Path(split_name(name)[0])
    return path if ending(path) in FORMATS or path.suffix == PYTHON else None


def is_corpus(name: str) -> bool:
    """Whether it is the name of a corpus; a path that is a method's is none."""
    if name.endswith(PYTHON):
        return registers_corpus(Path(name))
    # A file of another format is refused as a corpus, with the endings that are read.
    if name in SOURCES or file_of(name) is not None or os.path.isfile(name):  # noqa: PTH113
        return True
    # `methods/simcse` looks like the name of a data set, and it is the shipped method anywhere.
    named = is_hub_name(name.partition("?")[0]) and not name.startswith("methods/")
    return named and not Path(name).exists()


def count_items(name: str) -> int | None:
    """The number of items of a corpus, counted where it is at hand, else as published.

    None: it is not at hand, and no number is published. Raises UserError for an unknown corpus.
    """
    files = at_hand(name)
    return source(name).items if files is None else _counted(name, *files)


_as_published: ContextVar[bool] = ContextVar("_as_published", default=False)


@contextmanager
def published_sizes() -> Iterator[None]:
    """In the block, corpora of the papers have their published sizes, as if they were not here."""
    before = _as_published.set(True)
    try:
        yield
    finally:
        _as_published.reset(before)


@once
def at_hand(name: str) -> tuple[Stamp, ...] | None:
    """The files of a corpus as they are now; None: one is not at hand.

    Raises UserError for an unknown corpus.
    """
    if _as_published.get() and source(name).items is not None:
        return None
    try:
        return tuple(map(Stamp.of, source(name).paths(download=False)))
    except NotHere:
        return None


def fewer_than_published(name: str) -> str | None:
    """A sentence about a corpus that is smaller here than the paper's; None: it is not."""
    published, here = source(name).items, count_items(name)
    if published is None or here is None or here >= 0.99 * published:
        return None
    return f"{name} has {here:,} items here, and the paper's has {published:,}"


# Kept, since a plan asks once a round and a corpus may have a million lines.
@functools.cache
def _counted(name: str, *files: Stamp) -> int:
    """Count the items of a corpus with these files; a changed file is another entry."""
    return len(source(name).corpus([Path(each.path) for each in files]))
