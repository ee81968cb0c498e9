"""The loss of contrastive tension (contrastive_tension.md, section 1)."""

import torch
from torch import Tensor
from torch.nn import functional


def tension(first: Tensor, second: Tensor, same: Tensor) -> Tensor:
    """Mean over the rows of the binary cross entropy of first . second with the target `same`.

    first, second: (rows, width), the vectors of two encoders, which are not made unit vectors.
    same: (rows,), whether a row has one sentence twice.
    """
    # Autocast would multiply in bf16, and a dot product of long vectors is large.
    with torch.autocast(first.device.type, enabled=False):
        products = (_precise(first) * _precise(second)).sum(dim=1)
    return functional.binary_cross_entropy_with_logits(products, same.to(products.dtype))


def _precise(vectors: Tensor) -> Tensor:
    return vectors if vectors.dtype == torch.float64 else vectors.float()
