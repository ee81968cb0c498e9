"""The changed copies of a sentence that are views of it (pcl.md, section 1)."""

from dataclasses import replace

import numpy as np

from harness.data.batching import TextBatch, pad
from harness.data.tokens import Template


def shortened(pieces: np.ndarray, rate: float, generator: np.random.Generator) -> np.ndarray:
    """A share `rate` of the pieces is deleted; of equal ones, the first one goes."""
    kept = pieces.tolist()
    for _ in range(round(rate * len(pieces))):
        kept.remove(generator.choice(kept))
    return np.array(kept, pieces.dtype)


def lengthened(
    pieces: np.ndarray, rate: float, limit: int, generator: np.random.Generator
) -> np.ndarray:
    """A share `rate` of the pieces stands at a random place as well, up to `limit` pieces."""
    longer = pieces.tolist()
    for _ in range(min(round(rate * len(pieces)), limit - len(pieces))):
        piece = generator.choice(longer)
        longer.insert(generator.integers(len(longer) + 1), piece)
    return np.array(longer, pieces.dtype)


def augmented_views(
    texts: TextBatch, template: Template, *, rounds: int, rate: float, limit: int, pad_id: int
) -> TextBatch:
    """Each sentence twice, then `rounds` times shuffled, reversed, shortened and lengthened.

    limit: the most word pieces of a sentence. What is drawn follows from the item and the epoch.
    """
    begin, end = len(template.begin), len(template.end)
    lengths = texts.attention_mask.sum(dim=1).tolist()
    rows: list[np.ndarray] = []
    for row, length, item in zip(
        texts.input_ids.numpy(), lengths, texts.items.tolist(), strict=True
    ):
        pieces, generator = row[begin : length - end], np.random.default_rng((texts.epoch, item))
        rows += [pieces, pieces]
        for _ in range(rounds):
            rows += [
                generator.permutation(pieces),
                pieces[::-1],
                shortened(pieces, rate, generator),
                lengthened(pieces, rate, limit, generator),
            ]
    return replace(texts.replaced(*pad(rows, template, pad_id)), views=2 + 4 * rounds)
