"""The computations of IS-BERT; `__init__.py` declares the method."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from harness import plugin
from harness.encoders.pooling import mean
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


def local_global_loss(local: Tensor, mask: Tensor, whole: Tensor) -> Tensor:
    """Minus the Jensen-Shannon estimate of mutual information (isbert.md, section 1).

    local: (rows, length, width), a vector for each token. mask: (rows, length), 1 for a token.
    whole: (rows, width), a vector for each sentence. Both means run over pairs of a token and a
    sentence: the sentence that has the token, and all others of the batch. With a single row there
    are no others, and their mean counts as 0.
    """
    # Autocast would multiply in bf16.
    with torch.autocast(local.device.type, enabled=False):
        if local.dtype != torch.float64:
            local, whole = local.float(), whole.float()
        scores = torch.einsum("rlw,sw->rls", local, whole)
    own = torch.eye(len(local), dtype=torch.bool, device=local.device)[:, None, :]
    real = mask.bool()[:, :, None]
    positive = math.log(2) - functional.softplus(-scores)
    negative = functional.softplus(scores) - math.log(2)
    return _mean(negative, real & ~own) - _mean(positive, real & own)


def _mean(values: Tensor, wanted: Tensor) -> Tensor:
    return (values * wanted).sum() / wanted.sum().clamp(min=1)
