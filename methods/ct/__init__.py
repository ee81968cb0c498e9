"""CT: two encoders learn that their vectors agree on one sentence and on no other pair.

Carlsson et al., ICLR 2021 (contrastive tension); contrastive_tension.md.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from harness import plugin
from harness.encoders.pooling import pooled
from harness.errors import UserError
from harness.losses.contrastive_tension import tension
from harness.plugin import Batches, Kit, Optimisation, Stage, TextBatch


class Config(plugin.TrainingConfig):
    """contrastive_tension.md, section 2, says which values are sure."""

    setting: Literal["unsup"] = "unsup"
    learning_rate: float = Field(1e-5, gt=0, description="of the first 500 steps")
    batch_size: int = Field(16, ge=2, description="pairs; a multiple of negatives + 1")
    negatives: int = Field(7, ge=1, description="pairs of two sentences for each pair of one")
    max_steps: int | None = Field(50_000, ge=1)
    max_length: int = Field(75, ge=4, le=512)
    encoder_dropout: float | None = Field(
        0.0, ge=0, lt=1, description="in every layer of both encoders; null: the model's own"
    )
    gradient_clipping: float = Field(
        1e6, gt=0, description="largest norm of the gradient; in effect none"
    )
    evaluation_interval: int = Field(1000, ge=1)

    @model_validator(mode="after")
    def _whole_groups(self) -> Self:
        if self.batch_size % (self.negatives + 1):
            raise UserError(
                f"ct: batch_size {self.batch_size} is no multiple of negatives + 1 = "
                f"{self.negatives + 1}"
            )
        return self


class Method(plugin.Method[Config]):
    """Both encoders train, from the same weights. That of the partners alone is tested."""

    @classmethod
    def corpora(cls, config: Config) -> dict[str, str]:
        return {"tension": config.sentences}

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        stage = config.stage(
            "tension",
            trains=["encoder.*", "anchor_encoder.*"],
            batches=Batches(full=True),  # a batch is a whole number of groups
            optimisation=Optimisation(optimiser="rmsprop", schedule="stepped"),
        )
        return [stage]

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
