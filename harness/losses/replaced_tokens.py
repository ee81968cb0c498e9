"""Replaced-token detection: the loss of a discriminator (diffcse.md, section 1.4)."""

from dataclasses import replace

from torch import Tensor
from torch.nn import functional

from harness.choices import Reduction
from harness.data.batching import TextBatch
from harness.views.edits import Edited


def as_padded(edited: Edited, texts: TextBatch, reduction: Reduction) -> Edited:
    """The edited rows of `texts`, with the padding over which the loss will run.

    For mean_all this is the padding of the released code's batches, which are shuffled, also where
    our batches are grouped by length. Otherwise the rows stay as they are.
    """
    missing = texts.shuffled_length - texts.input_ids.shape[1]
    if reduction != "mean_all" or missing <= 0:
        return edited
    batch = edited.batch
    # Id 0, as at all padding of edited rows.
    ids, mask, host_mask, labels = (
        functional.pad(value, (0, missing))
        for value in (batch.input_ids, batch.attention_mask, batch.mask_on_host, edited.labels)
    )
    return replace(edited, batch=batch.replaced(ids, mask, host_mask), labels=labels)


def replaced_token_loss(
    logits: Tensor, edited: Edited, reduction: Reduction = "mean_all"
) -> Tensor:
    """Cross entropy over the classes "original" (0) and "replaced" (1); D2CSE, eq. 2.

    logits: (rows, length, 2). mean_all: the mean over all rows and positions, padding included
    (its label is 0), as in the released code; `as_padded` makes the padding. mean_nonpad and sum
    run over the real tokens; the papers print the sum.
    """
    losses = functional.cross_entropy(
        logits.float().flatten(0, 1), edited.labels.flatten(), reduction="none"
    )
    if reduction == "mean_all":
        return losses.mean()
    # Without padding, the mean does not change with the longest row of the batch.
    real = losses[edited.batch.attention_mask.flatten().bool()]
    return real.sum() if reduction == "sum" else real.mean()
