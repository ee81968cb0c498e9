"""The computations of IS-BERT; `__init__.py` declares the method."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from harness import plugin
from harness.encoders.pooling import mean
from harness.losses.local_global import local_global_loss
from harness.plugin import Kit, Stage, TextBatch

from . import Config, Declaration

WINDOWS = (1, 3, 5)
"""Tokens that a convolution sees"""


class Method(Declaration, plugin.Method[Config]):
    """Encoder and convolutions train, and both are part of the embedding."""

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.encoder = kit.encoder()
        self.convolutions = nn.ModuleList(
            nn.Conv1d(self.encoder.hidden_size, config.filters, window, padding="same")
            for window in WINDOWS
        )

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        texts = batch["information"]
        local = self._local(texts)
        whole = mean(local, texts.attention_mask)
        return {"information": local_global_loss(local, texts.attention_mask, whole)}

    def embed(self, batch: TextBatch) -> Tensor:
        return mean(self._local(batch), batch.attention_mask)

    def _local(self, batch: TextBatch) -> Tensor:
        """Vectors of the tokens and their neighbours, (rows, length, 3 * filters)."""
        # A window at the end of a sentence must see zeros, whatever stands at padding.
        states = self.encoder(batch) * batch.attention_mask[:, :, None]
        found = [convolution(states.transpose(1, 2)).relu() for convolution in self.convolutions]
        return torch.cat(found, dim=1).transpose(1, 2)
