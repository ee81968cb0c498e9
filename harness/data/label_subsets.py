"""Label subsets: which labelled items a trial with a share of the labels may see (diffaug.md, section 7)."""

import random

import numpy as np


def label_subset(items: int, fraction: float, subset: int) -> np.ndarray:
    """Indices of the items of subset number `subset`, ascending.

    Every item is drawn on its own with probability `fraction`, as in the released code, so that sizes vary a little;
    the same numbers give the same subset in every method and on every machine. At least one item.
    """
    generator = random.Random(subset)
    drawn = [item for item in range(items) if generator.random() < fraction]
    return np.asarray(drawn or [generator.randrange(items)], np.int64)
