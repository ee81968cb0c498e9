"""Changes to a sentence at the embedding layer that make a second view of it (ConSERT; consert.md, section 2).

Everything is drawn for each sentence on its own. A token that is cut stays in the attention mask, and so in a mean.
"""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from harness.encoders.backbone import Reach

Augmentation = Literal[
    "none", "adversarial", "shuffle", "token-cutoff", "feature-cutoff", "dropout"
]
Edit = Callable[[Tensor], Tensor]


def augmented(name: Augmentation, attention_mask: Tensor, rate: float) -> Reach:
    """How an encoder's forward pass makes this view; attention_mask: (rows, length).

    `rate`, 0 to 1: the share that the cutoffs and dropout remove. "adversarial" needs a gradient: `adversarial`.
    """
    if name == "shuffle":
        return {"positions": shuffled_positions(attention_mask)}
    if name == "token-cutoff":
        return {"edit": token_cutoff(attention_mask, rate)}
    if name == "feature-cutoff":
        return {"edit": feature_cutoff(rate)}
    if name == "dropout":
        return {"edit": element_dropout(attention_mask, rate)}
    assert name == "none", name
    return {}


def shuffled_positions(attention_mask: Tensor) -> Tensor:
    """The numbers 0, 1, ... of a row's real tokens, special ones included, in random order; (rows, length)."""
    return _random_ranks(attention_mask)


def token_cutoff(attention_mask: Tensor, rate: float) -> Edit:
    """Zero the vectors of floor(rate * real tokens) tokens."""
    cut = _random_ranks(attention_mask) < _share(attention_mask.sum(dim=1), rate)
    return lambda output: output.masked_fill(cut.unsqueeze(-1), 0.0)


def feature_cutoff(rate: float) -> Edit:
    """Zero floor(rate * H) features of all tokens."""

    def edit(output: Tensor) -> Tensor:
        every = torch.ones_like(output[:, 0], dtype=torch.long)
        cut = _random_ranks(every) < _share(every.sum(dim=1), rate)
        return output.masked_fill(cut.unsqueeze(1), 0.0)

    return edit


def element_dropout(attention_mask: Tensor, rate: float) -> Edit:
    """Zero floor(rate * real tokens * H) elements; the others are not scaled."""

    def edit(output: Tensor) -> Tensor:
        elements = attention_mask.unsqueeze(-1).expand_as(output).flatten(1)
        cut = _random_ranks(elements) < _share(elements.sum(dim=1), rate)
        return output.masked_fill(cut.view_as(output), 0.0)

    return edit


def adversarial(loss: Tensor, output: Tensor, noise_norm: float) -> Edit:
    """Add, to every token, a vector of length `noise_norm` in the direction in which `loss` grows.

    output: the embedding output (rows, length, H) of the pass behind `loss`, which can still be differentiated after.
    """
    (gradient,) = torch.autograd.grad(loss, output, retain_graph=True)
    noise = noise_norm * gradient / (gradient.norm(dim=-1, keepdim=True) + 1e-10)
    return lambda other: other + noise


def _random_ranks(real: Tensor) -> Tensor:
    """(rows, count): random distinct ranks 0, 1, ... where `real` is 1; what follows them elsewhere, in order."""
    keys = torch.rand(real.shape, device=real.device).masked_fill(real == 0, 2.0)
    return keys.argsort(dim=1, stable=True).argsort(dim=1, stable=True)


def _share(counts: Tensor, rate: float) -> Tensor:
    """floor(rate * count) of each row, (rows, 1)."""
    return (counts.double() * rate).floor().long().unsqueeze(1)
