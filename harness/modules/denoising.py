"""Template denoising: what a hard prompt alone would put into the vector of the mask.

PromptBERT subtracts it (promptbert.md, section 2), and so does DiffAug (diffaug.md, section 2).
"""

from typing import Unpack

import numpy as np
import torch
from torch import Tensor

from harness.data.batching import TextBatch
from harness.data.tokens import Template
from harness.device import constant
from harness.encoders.backbone import Encoder
from harness.encoders.reach import Reach


def distinct_lengths(batch: TextBatch, template: Template) -> tuple[Tensor, Tensor]:
    """The lengths that occur, ascending, and for each row the index of its own among them.

    A length is the number of word pieces of a row without its template. Where no shape may follow
    from the rows (`TextBatch.room`), these are all lengths from 0 to the width of the batch.

    Example:
        rows of the lengths 5, 3, 5 -> [3, 5], [1, 0, 1]
    """
    if batch.room is not None:
        longest = batch.input_ids.shape[1] - len(template)
        every = torch.arange(longest + 1, device=batch.input_ids.device)
        return every, batch.attention_mask.sum(dim=1) - len(template)
    # On the CPU, because a GPU would let it wait for the number of lengths.
    lengths = batch.mask_on_host.numpy().sum(axis=1) - len(template)
    distinct, inverse = (torch.from_numpy(each) for each in np.unique(lengths, return_inverse=True))
    device = batch.input_ids.device
    return distinct.to(device, non_blocking=True), inverse.to(device, non_blocking=True)


def template_vectors(
    encoder: Encoder,
    template: Template,
    lengths: Tensor,
    *,
    shift: bool = True,
    **reach: Unpack[Reach],
) -> Tensor:
    """The state at the mask of the bare template for each sentence length, (lengths, H).

    lengths: (lengths,). The part behind the sentence keeps the positions that it has behind a
    sentence of that length; with `shift=False` it stands where the template alone would have it.
    reach: for as many rows as there are lengths.
    """
    # The mode (dropout, gradients) is that of the main pass. The released codes also run the
    # lengths that do not occur, which has no effect on the vectors.
    device, count = lengths.device, len(lengths)
    ids = constant((*template.begin, *template.end), device).expand(count, -1)
    places = torch.arange(len(template), device=device)
    behind = (places >= len(template.begin)).long()
    gap = lengths if shift else lengths * 0
    batch = TextBatch(
        ids,
        torch.ones_like(ids),
        torch.arange(count, device=device),
        host_mask=torch.ones(count, len(template), dtype=torch.long),
    )
    reach["positions"] = places + behind * gap[:, None]
    return encoder.at(batch, template.mask_positions(batch.attention_mask), **reach)
