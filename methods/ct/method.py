"""The computations of CT; `__init__.py` declares the method."""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional

from harness import plugin
from harness.encoders.pooling import pooled
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


def tension(first: Tensor, second: Tensor, same: Tensor) -> Tensor:
    """Mean over the rows of the binary cross entropy of first . second with the target `same`.

    It is that of contrastive_tension.md, section 1. first, second: (rows, width), the vectors of
    two encoders, not made unit vectors. same: (rows,), whether a row has one sentence twice.
    """
    # In float32 at least: a dot product of long vectors is large.
    precise = torch.promote_types(first.dtype, torch.float32)
    products = (first.to(precise) * second.to(precise)).sum(dim=1)
    return functional.binary_cross_entropy_with_logits(products, same.to(precise))
