"""Facts about a corpus: shape, size, licence, first items, lengths, and overlaps with test sets."""

from collections.abc import Iterator

import numpy as np

from harness.data.corpora import source
from harness.data.readers import Corpus
from harness.errors import shortened
from harness.evaluation.overlap import overlaps

FIRST = 3
"""Items that are printed"""
_CHARACTERS = 300
"""Characters of a text that are printed, its beginning and its end"""


def corpus_facts(name: str) -> Iterator[str]:
    """The lines about a corpus. Raises UserError for one that is missing or damaged."""
    described = source(name)
    paths = described.paths()
    corpus = described.corpus(paths)
    yield f"{name}: {described.shape}, {len(corpus):,} items"
    yield from (f"file: {path}" for path in paths)
    yield f"licence: {described.licence}" if described.licence else ""
    yield from _lengths(corpus)
    yield "\nfirst items:"
    yield from _first(corpus)
    yield (
        "\nof test sets it has distinct sentences (exactly; but for case and punctuation), and "
        "pairs in one item:"
    )
    for test in overlaps(corpus):
        overlap = test.problem or (
            "{exact:>6} {normalised:>6} of {sentences:<6}{pairs_together:>6} of {pairs} pairs"
        ).format_map(test.figures)
        yield f"  {test.task:<8} {overlap}"


def _lengths(corpus: Corpus) -> Iterator[str]:
    """For each text of an item: its words, and how many are empty or occur before."""
    for number, column in enumerate(corpus.columns, start=1):
        words = np.fromiter((len(text.split()) for text in column), np.int64, len(column))
        low, middle, high = np.quantile(words, [0.05, 0.5, 0.95]).astype(int)
        # Hashes of 64 bits, as texts may not fit memory: of a billion, less than one is alike.
        hashes = np.fromiter(map(hash, column), np.int64, len(column))
        repeated = len(column) - len(np.unique(hashes))
        yield (
            f"text {number}: {words.mean():.1f} words on average, median {middle}, 5 % have at "
            f"most {low} and 5 % at least {high}; {(words == 0).sum():,} empty, {repeated:,} "
            f"repeat an earlier one"
        )


def _first(corpus: Corpus) -> Iterator[str]:
    """The first items, with their labels or scores."""
    for item in range(min(FIRST, len(corpus))):
        label = "" if corpus.labels is None else f"  [{corpus.labels[item]:g}]"
        texts = (shortened(column[item], _CHARACTERS) for column in corpus.columns)
        yield "  " + " | ".join(texts) + label
