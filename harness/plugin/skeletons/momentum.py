"""NAME: what the method does, in one line.

Authors, venue; where the details come from.
"""

from collections.abc import Mapping
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from harness import plugin
from harness.losses.info_nce import info_nce
from harness.modules.heads import TanhHead
from harness.modules.momentum import MomentumEncoder, VectorQueue
from harness.plugin import Kit, Stage, TextBatch


class Config(plugin.TrainingConfig):
    """The hyperparameters of the method; batch_size, epochs, temperature, ... are inherited."""

    setting: Literal["unsup"] = "unsup"
    learning_rate: float = Field(3e-5, gt=0, description="peak rate of the linear decay")
    momentum: float = Field(0.995, ge=0, lt=1, description="share of the slow copy that is kept")
    queue_size: int = Field(160, ge=0, description="vectors of earlier batches, as negatives")


class Method(plugin.Method[Config]):
    """A slow copy of the encoder fills a queue, whose vectors are further negatives."""

    @classmethod
    def corpora(cls, config: Config) -> dict[str, str]:
        return {"contrastive": config.sentences}  # stream -> corpus

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        trained, moves = ["encoder.*", "head.*"], ("momentum.*",)  # it moves without a gradient
        return [config.stage("contrastive", trains=trained, moves=moves)]

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.encoder = kit.encoder()
        self.head = TanhHead(self.encoder.hidden_size)
        self.momentum = MomentumEncoder(self.encoder, config.momentum)
        self.queue = VectorQueue(config.queue_size, self.encoder.hidden_size)

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        texts = batch["contrastive"]
        rows = texts.repeated(2)  # row 2i and row 2i + 1 differ by their dropout masks alone
        first, second = rows.split(self.head(self.encoder.cls(rows)))  # (items, H) each
        self.queue.start(texts.epoch)  # it is empty when an epoch begins
        loss = info_nce(first, second, self.queue.vectors, temperature=self.config.temperature)
        # The queue grows after the loss, so that no sentence is a negative of itself.
        self.momentum.follow(self.encoder)
        with torch.no_grad():
            self.queue.append(self.head(self.momentum.encoder.cls(texts)))  # (items, H)
        return {"contrastive": loss}

    def embed(self, batch: TextBatch) -> Tensor:
        return self.encoder.cls(batch)  # at test time without the head
