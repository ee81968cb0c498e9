"""Changes to a sentence at the embedding layer that make a view of it (ConSERT).

They are those of consert.md, section 2. Everything is drawn for each sentence on its own. A token
that is cut stays in the attention mask, and so in a mean over the tokens.
"""

import torch
from torch import Tensor

from harness.choices import Augmentation
from harness.encoders.reach import EmbeddingEdit, Reach


def augmented(name: Augmentation, attention_mask: Tensor, rate: float) -> Reach:
    """Injection with which an encoder's forward pass makes this view.

    attention_mask: (rows, length). rate: the share that the cutoffs and dropout remove, 0 to 1.
    The view "adversarial" needs a gradient as well, so it is made by `adversarial`.
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
    """The numbers 0, 1, ... of a row's real tokens in random order, (rows, length).

    Special tokens are moved, too.
    """
    return _random_ranks(attention_mask)


def token_cutoff(attention_mask: Tensor, rate: float) -> EmbeddingEdit:
    """Set the vectors of floor(rate * real tokens) tokens to zero."""
    cut = _random_ranks(attention_mask) < _share(attention_mask.sum(dim=1), rate)
    return lambda output: output.masked_fill(cut.unsqueeze(-1), 0.0)


def feature_cutoff(rate: float) -> EmbeddingEdit:
    """Set floor(rate * H) features of all tokens to zero."""

    def edit(output: Tensor) -> Tensor:
        every = torch.ones_like(output[:, 0], dtype=torch.long)
        cut = _random_ranks(every) < _share(every.sum(dim=1), rate)
        return output.masked_fill(cut.unsqueeze(1), 0.0)

    return edit


def element_dropout(attention_mask: Tensor, rate: float) -> EmbeddingEdit:
    """Set floor(rate * real tokens * H) elements to zero. The others are not scaled."""

    def edit(output: Tensor) -> Tensor:
        elements = attention_mask.unsqueeze(-1).expand_as(output).flatten(1)
        cut = _random_ranks(elements) < _share(elements.sum(dim=1), rate)
        return output.masked_fill(cut.view_as(output), 0.0)

    return edit


GRADIENT_SCALE = 1024.0
"""A power of two, so that it changes no digit of a direction"""


def adversarial(loss: Tensor, output: Tensor, noise_norm: float) -> EmbeddingEdit:
    """Put `output` with noise in the place of the embedding output of another pass.

    To every token, the noise adds a vector of length `noise_norm` along which `loss` grows. output:
    the embedding output, (rows, length, H), of the forward pass that gave `loss`, so the dropout of
    the embeddings is that of this pass. The graph of `loss` is kept, so that it can still be
    differentiated for training.
    """
    # In fp16, small gradients would become 0 without the scale.
    (gradient,) = torch.autograd.grad(GRADIENT_SCALE * loss, output, retain_graph=True)
    # 1e-10: the gradient at padding is 0, and 0 / 0 would be nan.
    length = gradient.norm(dim=-1, keepdim=True) + GRADIENT_SCALE * 1e-10
    noise = noise_norm * gradient / length
    noised = output + noise
    return lambda _: noised


def _random_ranks(real: Tensor) -> Tensor:
    """Random distinct ranks 0, 1, ... where `real` is 1, and what follows elsewhere, in order.

    real: (rows, count), 0 or 1. To compare the ranks of a row with n draws n of its real places
    without replacement.
    """
    # The keys of real places lie in [0, 1), so those of the others (2.0) come behind them.
    keys = torch.rand(real.shape, device=real.device).masked_fill(real == 0, 2.0)
    return keys.argsort(dim=1, stable=True).argsort(dim=1, stable=True)


def _share(counts: Tensor, rate: float) -> Tensor:
    """floor(rate * count) of each row, (rows, 1)."""
    return (counts.double() * rate).floor().long().unsqueeze(1)
