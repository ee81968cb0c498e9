"""Replaced-token detection: corruption by a generator, and the loss (diffcse.md, sections 1.2, 1.3 and 1.4)."""

from typing import Literal

from torch import Tensor
from torch.nn import functional

from harness.views.corruption import Edited

Reduction = Literal["mean_all", "mean_nonpad", "sum"]


def replaced_token_loss(
    logits: Tensor, edited: Edited, reduction: Reduction = "mean_all"
) -> Tensor:
    """Cross entropy over two classes. logits: (rows, length, 2).

    `mean_all`: over all rows and positions, padding (label 0) included, as the released code has it; `mean_nonpad` and
    `sum` (the paper's) run over the real tokens.
    """
    losses = functional.cross_entropy(
        logits.float().flatten(0, 1), edited.labels.flatten(), reduction="none"
    )
    if reduction == "mean_all":
        return losses.mean()
    real = losses[edited.batch.attention_mask.flatten().bool()]
    return real.sum() if reduction == "sum" else real.mean()
