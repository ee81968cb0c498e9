"""What a corpus is: shape, size, licence, first items, lengths, and overlaps with test sets."""

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from rich.console import Console

from harness.data.corpora import PYTHON, SOURCES, file_of, source
from harness.data.hub_tables import is_hub_name
from harness.data.readers import Corpus
from harness.data.registered_corpora import registers_corpus
from harness.evaluation.overlap import overlaps

FIRST = 3
"""Items that are printed"""


def is_corpus(what: str) -> bool:
    """Whether it is the name of a corpus; a path that is a method's is none."""
    if what.endswith(PYTHON):
        return registers_corpus(Path(what))
    # A file of another format is refused as a corpus, with the endings that are read.
    if what in SOURCES or file_of(what) is not None or os.path.isfile(what):  # noqa: PTH113
        return True
    # `methods/simcse` looks like the name of a data set, and it is the shipped method anywhere.
    named = is_hub_name(what.partition("?")[0]) and not what.startswith("methods/")
    return named and not Path(what).exists()


def print_corpus(name: str, console: Console) -> None:
    """Print all about a corpus. Raises UserError for one that is missing or damaged."""
    found = source(name)
    paths = found.paths()
    corpus = found.corpus(paths)
    lines = [
        f"{name}: {found.shape}, {len(corpus):,} items",
        *(f"file: {path}" for path in paths),
        f"licence: {found.licence}" if found.licence else "",
        *_lengths(corpus),
        "",
        "first items:",
        *_first(corpus),
        "",
        "of test sets it has distinct sentences (exactly; but for case and punctuation), and pairs "
        "in one item:",
    ]
    for each in overlaps(corpus):
        lines.append(f"  {each.task:<8} {each.problem or _overlap(each.figures)}")
    for line in lines:
        console.print(line, soft_wrap=True)


def _overlap(figures: Mapping[str, int]) -> str:
    """The figures of a test."""
    sentences = "{exact:>6} {normalised:>6} of {sentences:<6}".format_map(figures)
    return sentences + "{pairs_together:>6} of {pairs} pairs".format_map(figures)


def _lengths(corpus: Corpus) -> list[str]:
    """For each text of an item: its words, and how many are empty or occur before."""
    lines = []
    for number, column in enumerate(corpus.columns, start=1):
        words = np.fromiter((len(text.split()) for text in column), np.int64, len(column))
        low, middle, high = np.quantile(words, [0.05, 0.5, 0.95]).astype(int)
        # Hashes of 64 bits, as texts may not fit memory: of a billion, less than one is alike.
        hashes = np.fromiter(map(hash, column), np.int64, len(column))
        repeated = len(column) - len(np.unique(hashes))
        lines.append(
            f"text {number}: {words.mean():.1f} words on average, median {middle}, 5 % have at "
            f"most {low} and 5 % at least {high}; {(words == 0).sum():,} empty, {repeated:,} "
            f"repeat an earlier one"
        )
    return lines


def _first(corpus: Corpus) -> list[str]:
    """The first items, with their labels or scores."""
    lines = []
    for item in range(min(FIRST, len(corpus))):
        label = "" if corpus.labels is None else f"  [{corpus.labels[item]:g}]"
        lines.append("  " + " | ".join(column[item] for column in corpus.columns) + label)
    return lines
