"""The computations of VaSCL; `__init__.py` declares the method."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from harness import plugin
from harness.encoders.pooling import pooled
from harness.losses.info_nce import cosines
from harness.losses.nt_xent import nt_xent
from harness.plugin import Kit, Stage, TextBatch

from . import Config, Declaration


def nearest(vectors: Tensor, count: int) -> Tensor:
    """Which others are the nearest ones of each vector by inner product, (items, items) bool.

    vectors: (items, H). count: of neighbours; there are fewer in a smaller batch.
    """
    products = vectors @ vectors.T
    itself = torch.eye(len(vectors), dtype=torch.bool, device=vectors.device)
    found = products.masked_fill(itself, -torch.inf).topk(min(count, len(vectors) - 1)).indices
    return torch.zeros_like(itself).scatter(1, found, True)


def discrimination(
    anchors: Tensor, partners: Tensor, others: list[Tensor], near: Tensor, *, temperature: float
) -> Tensor:
    """Mean cross entropy of each anchor's partner among it and neighbours (vascl.md, section 1).

    anchors, partners, others: (items, width); the candidates are of all `others`. near: (items,
    items) bool.
    """
    partner = functional.cosine_similarity(anchors, partners)[:, None]
    logits = [cosines(anchors, other).masked_fill(~near, -torch.inf) for other in others]
    targets = torch.zeros(len(anchors), dtype=torch.long, device=anchors.device)
    return functional.cross_entropy(torch.cat([partner, *logits], dim=1) / temperature, targets)


class Method(Declaration, plugin.Method[Config]):
    """Encoder and head train. The mean of the encoder's states is tested."""

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.encoder = kit.encoder()
        width = self.encoder.hidden_size
        self.head = nn.Sequential(
            nn.Linear(width, width, bias=False),
            nn.ReLU(),
            nn.Linear(width, config.head_width, bias=False),
        )
        for weight in self.head.parameters():
            nn.init.normal_(weight, std=0.02)

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        rows = batch["contrastive"].repeated(2)
        vectors = self.embed(rows).float()
        # The steps between sentences and their copies are those of a network in float32.
        with torch.autocast(vectors.device.type, enabled=False):
            first, second = rows.split(self.head(vectors))  # (items, head width) each
            sentences = rows.split(vectors)[0].detach()
            return {
                "contrastive": nt_xent(first, second, temperature=self.config.temperature),
                "neighbourhood": self._neighbourhood(sentences),
            }

    def embed(self, batch: TextBatch) -> Tensor:
        return pooled(self.encoder, batch, "mean")

    def _neighbourhood(self, sentences: Tensor) -> Tensor:
        """How well the head tells the neighbours of sentences, (items, H), from virtual copies."""
        config = self.config
        near, temperature = nearest(sentences, config.neighbours), config.temperature
        with torch.no_grad():
            projected = self.head(sentences)
        with torch.enable_grad():  # an evaluation of this loss has none
            start = torch.rand_like(sentences) - 0.5
            start = functional.normalize(start, dim=1).requires_grad_()
            copies = self.head(sentences + config.perturbation * start)
            loss = discrimination(copies, projected, [projected], near, temperature=temperature)
            (gradient,) = torch.autograd.grad(loss, start)
        step = functional.normalize(gradient, dim=1)
        copies = self.head(sentences + config.perturbation * step)
        both = [projected, copies]
        directions = [
            discrimination(one, other, both, near, temperature=temperature)
            for one, other in (both, both[::-1])
        ]
        return torch.stack(directions).mean()
