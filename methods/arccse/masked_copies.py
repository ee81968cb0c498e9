"""The copies of a sentence with a smaller and a larger masked span (arccse.md, section 2)."""

from dataclasses import replace

import numpy as np

from harness.data.batching import TextBatch, pad
from harness.data.tokens import Template


def masked_copies(
    texts: TextBatch,
    template: Template,
    *,
    smaller: float,
    larger: float,
    mask_id: int,
    pad_id: int,
) -> TextBatch:
    """Each sentence as it is, with a masked span, and with one around it: three views.

    smaller, larger: shares of the word pieces in the two spans. Where the spans lie follows from
    the item and the epoch.
    """
    begin, end = len(template.begin), len(template.end)
    lengths = texts.mask_on_host.sum(dim=1).tolist()
    rows: list[np.ndarray] = []
    for row, length, item in zip(
        texts.input_ids.numpy(), lengths, texts.items.tolist(), strict=True
    ):
        pieces, generator = row[begin : length - end], np.random.default_rng((texts.epoch, item))
        near, far = pieces.copy(), pieces.copy()
        short, long = (round(share * len(pieces)) for share in (smaller, larger))
        first = generator.integers(len(pieces) - long + 1)
        near_first = first + generator.integers(long - short + 1)
        near[near_first : near_first + short] = mask_id
        far[first : first + long] = mask_id
        rows += [pieces, near, far]
    return replace(texts.replaced(*pad(rows, template, pad_id)), views=3)
