"""NAME: what the method does, in one line.

Authors, venue; where the details come from.
"""

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field
from torch import Tensor

from harness import plugin
from harness.losses.info_nce import info_nce
from harness.modules.heads import TanhHead
from harness.plugin import Kit, Stage, TextBatch


class Config(plugin.TrainingConfig):
    """The hyperparameters of the method; batch_size, epochs, temperature, ... are inherited."""

    setting: Literal["unsup"] = "unsup"
    learning_rate: float = Field(3e-5, gt=0, description="peak rate of the linear decay")

    # Values of the paper that differ from the defaults: (setting, encoder) -> values
    published: ClassVar = {("unsup", "roberta-base"): {"learning_rate": 1e-5}}


class Method(plugin.Method[Config]):
    """The stages: parameters that train, their data, and their loss."""

    @classmethod
    def corpora(cls, config: Config) -> dict[str, str]:
        return {"contrastive": config.sentences}  # stream -> corpus

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        return [config.stage("contrastive", trains=["encoder.*", "head.*"])]

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.encoder = kit.encoder()
        self.head = TanhHead(self.encoder.hidden_size)

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        # Each sentence twice: row 2i and row 2i + 1 differ by their dropout masks alone.
        texts = batch["contrastive"].repeated(2)
        vectors = self.head(self.encoder.cls(texts))  # (rows, H)
        first, second = texts.split(vectors)  # (items, H) each
        return {"contrastive": info_nce(first, second, temperature=self.config.temperature)}

    def embed(self, batch: TextBatch) -> Tensor:
        return self.encoder.cls(batch)  # at test time without the head
