"""SimCLR's contrastive loss: every vector looks for its partner among all others.

CLSR uses it (eq. 1 of its paper; clsr.md, section 2), and ConSERT does (consert.md, section 1).
"""

import torch
from torch import Tensor
from torch.nn import functional


def nt_xent(first: Tensor, second: Tensor, *, temperature: float) -> Tensor:
    """Mean over 2m vectors of the cross entropy of cos(vector, .) / temperature with its partner.

    first, second: (m, width); row i of one is the partner of row i of the other. The candidates of
    a vector are the 2m - 1 others, those of its own side included.
    """
    # Autocast would multiply in bf16, in which cosines near 1 have steps of 0.004.
    with torch.autocast(first.device.type, enabled=False):
        vectors = functional.normalize(torch.cat([first, second]).float(), dim=1)
        logits = vectors @ vectors.T / temperature
    itself = torch.eye(len(vectors), dtype=torch.bool, device=vectors.device)
    # Row i of the first side has its partner at i + m, row i of the second side at i - m.
    partners = torch.arange(len(vectors), device=vectors.device).roll(len(first))
    return functional.cross_entropy(logits.masked_fill(itself, -torch.inf), partners)
