"""ESimCSE: unsupervised SimCSE with repeated words in the second view and a momentum queue of further negatives.

Wu et al., COLING 2022; baselines.md, section 9.
"""

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from harness import method
from harness.data.batching import TextBatch
from harness.data.repetition import Range, repetition_views
from harness.encoders.heads import TanhHead
from harness.encoders.momentum import MomentumEncoder, Start, VectorQueue
from harness.kit import Kit
from harness.method import Stage
from harness.objectives.infonce import info_nce


class Config(method.TrainingConfig):
    """Field defaults: BERT base. Without repetition and queue it is SimCSE."""

    setting: Literal["unsup"] = "unsup"
    repetition_rate: float = Field(0.32, ge=0, le=1, description="bounds the word pieces repeated in view 2; 0: none")
    repetition_range: Range = Field("code", description="the bound: the released code's or the paper's")
    queue_ratio: float = Field(2.5, ge=0, description="queue size in batches; 0: no queue and no momentum encoder")
    momentum: float = Field(0.995, ge=0, le=1)
    momentum_start: Start = Field("pretrained", description="random: as the released code did by accident")
    encoder_dropout: float = Field(0.1, ge=0, lt=1, description="in every layer")

    published: ClassVar = {
        ("unsup", "bert-large-uncased"): {"learning_rate": 1e-5},
        ("unsup", "roberta-base"): {"learning_rate": 1e-5, "repetition_rate": 0.3},
        ("unsup", "roberta-large"): {"learning_rate": 1e-5},
    }
    """bert-large's rate is SimCSE's; roberta-base's values are those of the released log"""


class Method(method.Method):
    """Encoder and head train, the momentum encoder follows; only the encoder is used at test time."""

    config_type = Config

    @classmethod
    def data(cls, config: Config) -> dict[str, str]:
        return {"contrastive": config.sentences}

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        return [
            Stage(
                name="contrastive",
                trains=dict.fromkeys(("encoder.*", "head.*"), "learning_rate"),
                streams={"contrastive": config.batch_size},
                losses={"contrastive": 1.0},
                epochs=config.epochs,
                max_steps=config.max_steps,
                moves=("momentum.*",),
            )
        ]

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.encoder = kit.encoder(dropout=config.encoder_dropout)
        self.head = TanhHead(self.encoder.hidden_size)
        self.queue = VectorQueue(int(config.queue_ratio * config.batch_size))
        if self.queue.size:
            self.momentum = MomentumEncoder(self.encoder, config.momentum, config.momentum_start)

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        texts = batch["contrastive"]
        first, second = self.head(self.encoder.cls(self._views(texts))).unflatten(0, (-1, 2)).unbind(1)
        self.queue.start(texts.epoch)
        loss = info_nce(first, second, self.queue.vectors, temperature=self.config.temperature)
        if self.queue.size:
            self.momentum.follow(self.encoder)
            with torch.no_grad():
                self.queue.append(self.head(self.momentum.encoder.cls(texts)))
        return {"contrastive": loss}

    def embed(self, batch: TextBatch) -> Tensor:
        return self.encoder.cls(batch)

    def _views(self, texts: TextBatch) -> TextBatch:
        """Each sentence twice, with repetitions the second time."""
        config = self.config
        if config.repetition_rate == 0:
            return texts.repeated(2)
        pad_id = self.tokenizer.pad_token_id
        return repetition_views(texts, self.template, config.repetition_rate, config.repetition_range, pad_id)
