"""The masked-language-model loss (diffcse.md, section 1.2; dcpcse.md, section 2; simcse.md, section 2.4)."""

from torch import Tensor, nn
from torch.nn import functional


def masked_language_loss(
    head: nn.Module, states: Tensor, originals: Tensor, chosen: Tensor
) -> Tensor:
    """Cross entropy over the vocabulary, averaged over the chosen positions; 0 when none was chosen.

    head: states -> logits; states: (rows, length, H); originals, chosen: (rows, length).
    """
    logits: Tensor = head(states[chosen])
    if len(logits) == 0:
        return states.sum() * 0
    return functional.cross_entropy(logits.float(), originals[chosen])
