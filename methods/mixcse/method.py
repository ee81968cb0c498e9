"""The computations of MixCSE; `__init__.py` declares the method."""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional

from harness import plugin
from harness.modules.heads import TanhHead
from harness.plugin import Kit, Stage, TextBatch

from . import Config, Declaration


def mixing_contrast(first: Tensor, second: Tensor, *, share: float, temperature: float) -> Tensor:
    """Mean over i of the cross entropy whose target is cos(z_i, z'_i) (mixcse.md, section 1).

    first, second: (N, width), the views z and z'. The candidates of i are the cosines of z_i and
    all z', those of z_i and all mixed z', and those of the mixed z of i and all z'; there are 3 N.
    """
    # Autocast would multiply in bf16, in which cosines near 1 have steps of 0.004.
    with torch.autocast(first.device.type, enabled=False):
        one, other = first.float(), second.float()
        mixed = [(share * each + (1 - share) * each.roll(-1, 0)).detach() for each in (one, other)]
        one, other, mixed_one, mixed_other = (
            functional.normalize(each, dim=1) for each in (one, other, *mixed)
        )
        own = torch.eye(len(one), dtype=torch.bool, device=one.device)
        # Where a mixture is mostly what it would be a negative of, it counts as a cosine of 0.
        similarity = [
            one @ other.T,
            (one @ mixed_other.T).masked_fill(own.roll(1, 0), 0.0),
            (mixed_one @ other.T).masked_fill(own.roll(1, 1), 0.0),
        ]
    targets = torch.arange(len(one), device=one.device)
    return functional.cross_entropy(torch.cat(similarity, dim=1) / temperature, targets)


class Method(Declaration, plugin.Method[Config]):
    """Encoder and head train. The encoder alone is tested."""

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.encoder = kit.encoder()
        self.head = TanhHead(self.encoder.hidden_size)

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        rows, config = batch["contrastive"].repeated(2), self.config
        first, second = rows.split(self.head(self.encoder.cls(rows)))  # (items, H) each
        share, temperature = config.mixing_share, config.temperature
        loss = mixing_contrast(first, second, share=share, temperature=temperature)
        return {"contrastive": loss}

    def embed(self, batch: TextBatch) -> Tensor:
        return self.encoder.cls(batch)

    def embed_dev(self, batch: TextBatch) -> Tensor:
        states = self.embed(batch)
        return self.head(states) if self.config.dev_head else states
