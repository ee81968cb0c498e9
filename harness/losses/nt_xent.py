"""SimCLR's contrastive loss, NT-Xent: both sides of every pair look for their partner among all others (clsr.md, section 2)."""

import torch
from torch import Tensor
from torch.nn import functional


def nt_xent(first: Tensor, second: Tensor, *, temperature: float) -> Tensor:
    """Mean over all 2m vectors of the cross entropy of cos(vector, .) / temperature with its partner as the target.

    first, second: (m, width); row i of one is the partner of row i of the other. The candidates of a vector are the
    2m - 1 others, its own side's included. Computed in float32.
    """
    with torch.autocast(
        first.device.type, enabled=False
    ):  # it would multiply in bf16: cosines in steps of 0.004
        vectors = functional.normalize(torch.cat([first, second]).float(), dim=1)
        logits = vectors @ vectors.T / temperature
    itself = torch.eye(len(vectors), dtype=torch.bool, device=vectors.device)
    partners = torch.arange(len(vectors), device=vectors.device).roll(len(first))
    return functional.cross_entropy(logits.masked_fill(itself, -torch.inf), partners)
