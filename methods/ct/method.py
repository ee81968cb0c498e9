"""The computations of CT; `__init__.py` declares the method."""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from harness import plugin
from harness.encoders.pooling import pooled
from harness.losses.contrastive_tension import tension
from harness.plugin import Kit, Stage, TextBatch

from . import Config, Declaration


class Method(Declaration, plugin.Method[Config]):
    """Both encoders train, from the same weights. That of the partners alone is tested."""

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.encoder = kit.encoder()
        self.anchor_encoder = kit.encoder()

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        texts = batch["tension"]
        group = self.config.negatives + 1
        # The first sentence of a group meets itself, then each of the others.
        anchors = texts.rows(slice(0, None, group)).repeated(group)
        # The rows of an anchor are no views of it, so they may be equal.
        first = pooled(self.anchor_encoder, replace(anchors, copies=1), "mean")  # (items, H)
        second = self.embed(texts)  # (items, H)
        same = torch.arange(len(first), device=first.device) % group == 0
        return {"tension": tension(first, second, same)}

    def embed(self, batch: TextBatch) -> Tensor:
        return pooled(self.encoder, batch, "mean")
