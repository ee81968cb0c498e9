"""Word repetition: a second view in which some word pieces stand twice (ESimCSE; esimcse.md, section 1)."""

import math
from typing import Literal

import numpy as np

from harness.data.batching import TextBatch, interleaved, pad
from harness.data.tokens import Template

Range = Literal["code", "paper"]


def most_repeated(pieces: int, around: int, rate: float, rule: Range) -> int:
    """The largest number of pieces that may be repeated in a sentence.

    code: min(10, floor(rate * length)) - 1, where length counts the `around` special tokens too; paper:
    max(2, floor(rate * pieces)).
    """
    if rule == "paper":
        return min(pieces, max(2, math.floor(rate * pieces)))
    return min(pieces, max(0, min(10, math.floor(rate * (pieces + around))) - 1))


def repeated_pieces(
    row: np.ndarray, item: int, around: int, rate: float, rule: Range
) -> np.ndarray:
    """A sentence's pieces with a random number of them doubled in place.

    Drawn from the item's number alone, so that it is the same in every epoch, as if done once beforehand.
    """
    generator = np.random.default_rng(item)
    count = generator.integers(most_repeated(len(row), around, rate, rule) + 1)
    times = np.ones(len(row), np.int64)
    times[generator.choice(len(row), count, replace=False)] = 2
    return np.repeat(row, times)


def repetition_views(
    texts: TextBatch, template: Template, rate: float, rule: Range, pad_id: int
) -> TextBatch:
    """Each sentence, and the same with repetitions: two views; the second is not cut again, so it may be longer."""
    lengths = texts.attention_mask.sum(dim=1).tolist()
    begin, end = len(template.begin), len(template.end)
    rows = [
        repeated_pieces(ids[begin : length - end], item, len(template), rate, rule)
        for ids, length, item in zip(
            texts.input_ids.cpu().numpy(), lengths, texts.items.tolist(), strict=True
        )
    ]
    ids, mask = pad(rows, template, pad_id)
    return interleaved(texts, texts.replaced(ids, mask).to(texts.input_ids.device), pad_id)
