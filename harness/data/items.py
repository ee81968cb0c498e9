"""Items of a corpus: the subset whose labels are seen, and which items meet in a batch."""

import random
from collections.abc import Sequence

import numpy as np


def label_subset(items: int, fraction: float, subset: int) -> np.ndarray:
    """The numbers of the items in subset number `subset`, ascending; at least one.

    Every item is drawn on its own with probability `fraction`, as in the released code, so the
    sizes of the subsets vary a little. The same arguments give the same subset in every method and
    on every machine.
    """
    # Python's generator, not numpy's: the released code draws with it.
    generator = random.Random(subset)
    drawn = [item for item in range(items) if generator.random() < fraction]
    # A small share of few items may be empty, and a stage needs at least one item.
    return np.asarray(drawn or [generator.randrange(items)], np.int64)


WINDOW = 100
"""Batches whose items are sorted by length together, where batches are grouped.

It is long enough that a batch is nearly free of padding, and short enough that the items of a batch
are a random sample among those of about one length."""


def shuffled_batches(
    items: int, batch_size: int, generator: np.random.Generator
) -> list[np.ndarray]:
    """One epoch of batches, each the numbers of its items; every item occurs once.

    The last batch is short when `batch_size` does not divide the number of items.
    """
    order = generator.permutation(items)
    return [order[at : at + batch_size] for at in range(0, items, batch_size)]


def length_grouped(
    shuffled: Sequence[np.ndarray],
    lengths: np.ndarray,
    generator: np.random.Generator,
    window: int = WINDOW,
) -> list[np.ndarray]:
    """The items of shuffled batches in as many batches, each with items of about one length.

    lengths: (items,), the length of every item. The items of `window` batches are sorted by length
    together. Then the batches are shuffled, so that all but the lengths is random.
    """
    batches: list[np.ndarray] = []
    size = len(shuffled[0])
    for start in range(0, len(shuffled), window):
        chunk = np.concatenate(shuffled[start : start + window])
        # A stable sort: items of equal length stay in their random order, on any machine.
        chunk = chunk[np.argsort(lengths[chunk], kind="stable")]
        batches.extend(chunk[at : at + size] for at in range(0, len(chunk), size))
    # Without this, training would go from short to long sentences over and over again.
    return [batches[index] for index in generator.permutation(len(batches))]


def batches_in_epoch(items: int, batch_size: int, group: int = 0) -> int:
    """The number of batches in an epoch over so many items.

    `group`: only full batches count, and only a multiple of `group` of them. With 0, a short last
    batch counts as well.
    """
    if group == 0:
        return -(-items // batch_size)  # rounded up, in whole numbers
    return items // (batch_size * group) * group
