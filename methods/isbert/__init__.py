"""IS-BERT: convolutions on BERT, whose mean knows the tokens of its own sentence.

Zhang, He, Liu, Lim and Bing, EMNLP 2020; isbert.md.
"""

from collections.abc import Mapping
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from harness import plugin
from harness.encoders.pooling import mean
from harness.losses.local_global import local_global_loss
from harness.plugin import Kit, Optimisation, Stage, TextBatch

WINDOWS = (1, 3, 5)
"""Tokens that a convolution sees"""


class Config(plugin.TrainingConfig):
    """isbert.md, section 2, says which values are sure."""

    setting: Literal["unsup"] = "unsup"
    learning_rate: float = Field(1e-6, gt=0)
    batch_size: int = Field(32, ge=2, description="items; a pair of the corpus is two sentences")
    max_length: int = Field(128, ge=4, le=512)
    warmup_ratio: float = Field(0.1, ge=0, le=1, description="share of the steps that warm up")
    weight_decay: float = Field(0.01, ge=0)
    filters: int = Field(256, ge=1, description="of each of the three convolutions")
    sentences: str = Field("nli-pairs", description="corpus, whose labels are not looked at")
    evaluation_interval: int = Field(1000, ge=1)


class Method(plugin.Method[Config]):
    """Encoder and convolutions train, and both are part of the embedding."""

    @classmethod
    def corpora(cls, config: Config) -> dict[str, str]:
        return {"information": config.sentences}

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        uncorrected = Optimisation(optimiser="adamw-uncorrected")
        return [config.stage("information", optimisation=uncorrected)]

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
