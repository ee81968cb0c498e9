"""The computations of WhitenedCSE; `__init__.py` declares the method."""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional

from harness import plugin
from harness.losses.info_nce import info_nce
from harness.modules.heads import TanhHead
from harness.plugin import Kit, Stage, TextBatch

from . import Config, Declaration


def group_whitened(vectors: Tensor, order: Tensor, *, size: int) -> Tensor:
    """ZCA whitening within groups of channels, (rows, H) -> (rows, H) (whitenedcse.md, section 1).

    order: (H,), the channels in an order in which every `size` of them are a group; those that are
    left are a smaller one. The whitening matrices are constants. A direction in which the rows do
    not differ stays 0.
    """
    # Autocast would multiply in bf16, which is too coarse for the small eigenvalues.
    with torch.autocast(vectors.device.type, enabled=False):
        precise = vectors.to(torch.promote_types(vectors.dtype, torch.float32))
        rows, width = precise.shape
        # Channels of zeros fill the last group, and are cut off again.
        filled = functional.pad(precise[:, order], (0, -width % size))
        groups = filled.view(rows, -1, size).transpose(0, 1)  # (groups, rows, size)
        centred = groups - groups.mean(dim=1, keepdim=True)
        constant = centred.detach()
        values, axes = torch.linalg.eigh(constant.mT @ constant / rows)
        smallest = size * torch.finfo(values.dtype).eps * values.amax(dim=1, keepdim=True)
        scales = torch.where(values > smallest, values.rsqrt(), 0.0)
        whitened: Tensor = centred @ ((axes * scales[:, None]) @ axes.mT)
    return whitened.transpose(0, 1).flatten(1)[:, order.argsort()]


class Method(Declaration, plugin.Method[Config]):
    """Encoder and head train. The encoder alone is tested."""

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.encoder = kit.encoder()
        self.head = TanhHead(self.encoder.hidden_size)

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        rows = batch["contrastive"].repeated(self.config.views)
        states = rows.split(self.encoder.cls(rows))  # (items, H) each
        anchors, *others = [self.head(self._whitened(view)) for view in states]
        temperature = self.config.temperature
        losses = [info_nce(anchors, other, temperature=temperature) for other in others]
        return {"contrastive": torch.stack(losses).sum()}

    def embed(self, batch: TextBatch) -> Tensor:
        return self.encoder.cls(batch)

    def _whitened(self, states: Tensor) -> Tensor:
        """One view of all items, in groups that are drawn for it alone."""
        order = torch.randperm(states.shape[1], device=states.device)
        return group_whitened(states, order, size=self.config.group_size)
