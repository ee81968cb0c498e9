"""Numbers of items: the subset whose labels are seen, and the batches of an epoch."""

import random


def label_subset(items: int, fraction: float, subset: int) -> list[int]:
    """The numbers of the items in subset number `subset`, ascending; at least one.

    Every item is drawn on its own with probability `fraction`, as in the released code, so the
    sizes of the subsets vary a little. The same arguments give the same subset in every method and
    on every machine.
    """
    # Python's generator, not numpy's: the released code draws with it.
    generator = random.Random(subset)
    drawn = [item for item in range(items) if generator.random() < fraction]
    # A small share of few items may be empty, and a stage needs at least one item.
    return drawn or [generator.randrange(items)]


def batches_in_epoch(items: int, batch_size: int, group: int = 0) -> int:
    """The number of batches in an epoch over so many items.

    `group`: only full batches count, and only a multiple of `group` of them. With 0, a short last
    batch counts as well.
    """
    if group == 0:
        return -(-items // batch_size)  # rounded up, in whole numbers
    return items // (batch_size * group) * group
