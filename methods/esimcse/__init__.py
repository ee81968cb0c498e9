"""ESimCSE: unsupervised SimCSE with repeated words in view 2 and a momentum queue of negatives.

Wu et al., COLING 2022; esimcse.md.
"""

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from harness import plugin
from harness.losses.info_nce import info_nce
from harness.modules.heads import TanhHead
from harness.modules.momentum import MomentumEncoder, MomentumStart, VectorQueue
from harness.plugin import Kit, Stage, TextBatch
from harness.views.repetition import RepetitionRange, repetition_views


class Config(plugin.TrainingConfig):
    """esimcse.md, section 3; the field defaults are those of BERT base.

    Without repetition and queue it is SimCSE.
    """

    setting: Literal["unsup"] = "unsup"
    repetition_rate: float = Field(
        0.32, ge=0, le=1, description="bounds the word pieces repeated in view 2; 0: none"
    )
    repetition_range: RepetitionRange = Field(
        "code", description="the bound: the released code's or the paper's"
    )
    queue_ratio: float = Field(
        2.5, ge=0, description="queue size in batches; 0: no queue and no momentum encoder"
    )
    momentum: float = Field(
        0.995, ge=0, le=1, description="share of the momentum encoder that stays in a step"
    )
    momentum_start: MomentumStart = Field(
        "pretrained", description="random: as the released code did by accident"
    )
    encoder_dropout: float = Field(0.1, ge=0, lt=1, description="in every layer")

    published: ClassVar = {
        ("unsup", "bert-large-uncased"): {"learning_rate": 1e-5},
        ("unsup", "roberta-base"): {"learning_rate": 1e-5, "repetition_rate": 0.3},
        ("unsup", "roberta-large"): {
            "learning_rate": 1e-5, "repetition_rate": 0.28, "queue_ratio": 2.0,
            "encoder_dropout": 0.15,
        },
    }  # fmt: skip
    """The rate of bert-large is SimCSE's; the RoBERTas have the values of the released `run.sh`"""


class Method(plugin.Method[Config]):
    """Encoder and head train, and the momentum encoder follows. The encoder alone is tested."""

    @classmethod
    def corpora(cls, config: Config) -> dict[str, str]:
        return {"contrastive": config.sentences}

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        trained = ["encoder.*", "head.*"]
        return [config.stage("contrastive", trains=trained, moves=("momentum.*",))]

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.encoder = kit.encoder()
        width = self.encoder.hidden_size
        self.head = TanhHead(width)
        self.queue = VectorQueue(int(config.queue_ratio * config.batch_size), width)
        if self.queue.size:
            self.momentum = MomentumEncoder(self.encoder, config.momentum, config.momentum_start)

    def prepared(self, batch: Mapping[str, TextBatch], stage: Stage) -> Mapping[str, TextBatch]:
        return {**batch, "views": self._views(batch["contrastive"])}

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        texts, rows = batch["contrastive"], batch["views"]
        first, second = rows.split(self.head(self.encoder.cls(rows)))  # (items, H) each
        self.queue.start(texts.epoch)
        loss = info_nce(first, second, self.queue.vectors, temperature=self.config.temperature)
        # The queue grows after the loss, so that no sentence is a negative of itself
        # (esimcse.md, section 2).
        if self.queue.size:
            self.momentum.follow(self.encoder)
            with torch.no_grad():
                self.queue.append(self.head(self.momentum.encoder.cls(texts)))
        return {"contrastive": loss}

    def embed(self, batch: TextBatch) -> Tensor:
        return self.encoder.cls(batch)

    def _views(self, texts: TextBatch) -> TextBatch:
        """Each sentence twice, with repetitions the second time (esimcse.md, section 1)."""
        config = self.config
        if config.repetition_rate == 0:
            return texts.repeated(2)
        pad_id = self.tokenizer.pad_token_id
        return repetition_views(
            texts, self.template, config.repetition_rate, config.repetition_range, pad_id
        )
