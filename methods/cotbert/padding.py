"""CoT-BERT's denoising: what a template gives when padding stands for the sentence."""

import numpy as np
import torch
from torch import Tensor

from harness.data.batching import TextBatch, pad
from harness.data.tokens import Template
from harness.encoders.backbone import Encoder


def padded_template_vectors(
    encoder: Encoder, template: Template, texts: TextBatch, pad_id: int, *, counted: bool
) -> Tensor:
    """The state at the last mask when all pieces of a sentence are padding, (rows, H).

    The padding is seen as any piece (cotbert.md, section 3). Rows of one length share a vector.
    texts: rows in the template. counted: whether padding counts in the positions of a RoBERTa; in
    its released code it does not. BERT counts all pieces.
    """
    pieces = texts.mask_on_host.numpy().sum(axis=1) - len(template)
    lengths, row = np.unique(pieces, return_inverse=True)
    ids, mask = pad([np.full(length, pad_id) for length in lengths], template, pad_id)
    device, positions = texts.input_ids.device, None
    bare = TextBatch(
        ids.to(device, non_blocking=True),
        mask.to(device, non_blocking=True),
        torch.arange(len(lengths), device=device),
        host_mask=mask,
    )
    if not counted and encoder.first_position:
        # All padding stands in one place in front of the first position.
        real = (ids != pad_id).long()
        positions = (real.cumsum(dim=1) * real - 1).to(device, non_blocking=True)
    where = template.mask_positions(bare.attention_mask)
    vectors = encoder.at(bare, where, positions=positions)
    return vectors[torch.from_numpy(row).to(device, non_blocking=True)]
