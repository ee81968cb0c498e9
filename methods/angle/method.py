"""The computations of AnglE; `__init__.py` declares the method."""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional

from harness import plugin
from harness.encoders.pooling import pooled
from harness.losses.info_nce import info_nce
from harness.losses.scored_pairs import cosent, ordering
from harness.plugin import Kit, Stage, TextBatch

from . import Config, Declaration


def angle(first: Tensor, second: Tensor, scores: Tensor, *, scale: float) -> Tensor:
    """The order of the scores, in the complex quotients of the vectors (angle.md, section 1.3).

    first, second: (items, width); the halves of a vector are real and imaginary parts. scores:
    (items,).
    """
    u, v = first.float(), second.float()
    real, imaginary = u.chunk(2, dim=1)
    turned = torch.cat([imaginary, -real], dim=1)  # u / i
    sums = functional.cosine_similarity(u, v) + functional.cosine_similarity(turned, v)
    return ordering(sums.abs(), scores, scale=scale)


def in_batch(first: Tensor, second: Tensor, positive: Tensor, *, scale: float) -> Tensor:
    """Mean over all texts of the cross entropy of their partner among all other texts.

    first, second: (items, width). positive: (items,), of which the others count as 0 (angle.md,
    section 1.2).
    """
    texts, count = torch.cat([first, second]), len(first)
    # Autocast would multiply in bf16, in which cosines near 1 have steps of 0.004.
    with torch.autocast(texts.device.type, enabled=False):
        unit = functional.normalize(texts.float(), dim=1)
        logits = scale * (unit @ unit.T)
    itself = torch.eye(2 * count, dtype=torch.bool, device=texts.device)
    partners = torch.arange(2 * count, device=texts.device).roll(count)
    logits = logits.masked_fill(itself, -torch.inf)
    losses = functional.cross_entropy(logits, partners, reduction="none")
    return (losses * positive.repeat(2)).mean()


class Method(Declaration, plugin.Method[Config]):
    """The encoder trains; nothing is added to it."""

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.encoder = kit.encoder()

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        config, texts = self.config, batch["pairs"]
        first, second, *contradictions = texts.split(self.embed(texts))  # (items, H) each
        if contradictions:  # two pairs of a triplet
            temperature = 1 / config.in_batch_scale
            plain = info_nce(first, second, temperature=temperature)
            hard = info_nce(first, second, *contradictions, temperature=temperature)
            contrast = (plain + hard) / 2
            ones = torch.ones(len(first), device=first.device)
            scores = torch.cat([ones, torch.zeros_like(ones)])
            first, second = torch.cat([first, first]), torch.cat([second, *contradictions])
        else:
            assert texts.labels is not None  # the corpus has been checked to be of scored pairs
            scores = texts.labels
            positive = scores >= config.positive_score
            contrast = in_batch(first, second, positive, scale=config.in_batch_scale)
        return {
            "cosine": cosent(first, second, scores, scale=config.cosine_scale),
            "in-batch": contrast,
            "angle": angle(first, second, scores, scale=config.angle_scale),
        }

    def embed(self, batch: TextBatch) -> Tensor:
        return pooled(self.encoder, batch, self.config.pooling)
