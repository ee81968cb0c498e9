"""Replaced-token detection: the loss of a discriminator (diffcse.md, section 1.4)."""

from typing import Literal

from torch import Tensor
from torch.nn import functional

from harness.views.corruption import Edited

Reduction = Literal["mean_all", "mean_nonpad", "sum"]


def replaced_token_loss(
    logits: Tensor, edited: Edited, reduction: Reduction = "mean_all"
) -> Tensor:
    """Cross entropy over the classes "original" (0) and "replaced" (1); D2CSE, eq. 2.

    logits: (rows, length, 2). mean_all: the mean over all rows and positions, padding included
    (its label is 0), as in the released code. mean_nonpad and sum run over the real tokens; the
    papers print the sum.
    """
    losses = functional.cross_entropy(
        logits.float().flatten(0, 1), edited.labels.flatten(), reduction="none"
    )
    if reduction == "mean_all":
        return losses.mean()
    # Without padding, the mean does not change with the longest row of the batch.
    real = losses[edited.batch.attention_mask.flatten().bool()]
    return real.sum() if reduction == "sum" else real.mean()
