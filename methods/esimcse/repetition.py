"""Word repetition: a second view in which some word pieces stand twice.

ESimCSE makes its positive pairs in this way (esimcse.md, section 1).
"""

import math

import numpy as np

from harness.choices import RepetitionRange
from harness.data.batching import TextBatch, interleaved, pad
from harness.data.tokens import Template


def most_repeated(pieces: int, around: int, rate: float, bound: RepetitionRange) -> int:
    """The largest number of pieces that may be repeated in a sentence of `pieces` pieces.

    around: special tokens of a row. code: min(10, floor(rate * (pieces + around))) - 1. paper:
    max(2, floor(rate * pieces)). It is never negative and never more than `pieces`.
    """
    if bound == "paper":
        return min(pieces, max(2, math.floor(rate * pieces)))
    return min(pieces, max(0, min(10, math.floor(rate * (pieces + around))) - 1))


def repeated_pieces(
    row: np.ndarray, item: int, around: int, rate: float, bound: RepetitionRange
) -> np.ndarray:
    """A sentence's pieces, a random number of them doubled in place.

    row: the pieces without special tokens. item: the number of the sentence in its corpus.

    Example:
        a b c -> a a b c, or a b b c c, or a b c
    """
    # The released code does this once in preprocessing. A generator that depends on the item
    # alone repeats the same pieces in every epoch, without a stored corpus.
    generator = np.random.default_rng(item)
    count = generator.integers(most_repeated(len(row), around, rate, bound) + 1)
    times = np.ones(len(row), np.int64)
    times[generator.choice(len(row), count, replace=False)] = 2
    return np.repeat(row, times)


def repetition_views(
    texts: TextBatch, template: Template, rate: float, bound: RepetitionRange, pad_id: int
) -> TextBatch:
    """Two views of each sentence: itself, and itself with repetitions.

    The second view is not cut again, so it may be longer than a training sentence is elsewhere.
    """
    begin, end = len(template.begin), len(template.end)
    ids = texts.input_ids.numpy()
    lengths = texts.attention_mask.sum(dim=1).tolist()
    rows = [
        repeated_pieces(row[begin : length - end], item, len(template), rate, bound)
        for row, length, item in zip(ids, lengths, texts.items.tolist(), strict=True)
    ]
    repeated, mask = pad(rows, template, pad_id)
    return interleaved(texts, texts.replaced(repeated, mask), pad_id)
