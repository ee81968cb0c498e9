"""Label subsets: the labelled items that a trial with a share of the labels may see.

The rule is DiffAug's (diffaug.md, section 7), and it is the same for all methods.
"""

import random

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
