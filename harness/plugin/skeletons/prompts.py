"""NAME: what the method does, in one line.

Authors, venue; where the details come from.
"""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field
from torch import Tensor

from harness import plugin
from harness.losses.info_nce import info_nce
from harness.modules.heads import TanhHead
from harness.modules.prompts import DeepPrompts
from harness.plugin import Kit, Stage, TextBatch


class Config(plugin.TrainingConfig):
    """The hyperparameters of the method; batch_size, epochs, temperature, ... are inherited."""

    setting: Literal["unsup"] = "unsup"
    learning_rate: float = Field(3e-2, gt=0, description="peak rate of the linear decay")
    prompt_length: int = Field(
        16, ge=1, description="key/value pairs in front of every layer's own"
    )


class Method(plugin.Method[Config]):
    """Prompts and head train. The encoder is frozen, and its dropout makes the two views differ."""

    @classmethod
    def corpora(cls, config: Config) -> dict[str, str]:
        return {"contrastive": config.sentences}  # stream -> corpus

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        return [config.stage("contrastive", trains=["prompts.*", "head.*"])]

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.encoder = kit.encoder()
        self.prompts = DeepPrompts(self.encoder, config.prompt_length, shift=False)
        self.head = TanhHead(self.encoder.hidden_size)

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        texts = batch["contrastive"].repeated(2)
        first, second = texts.split(self.head(self.embed(texts)))  # (items, H) each
        return {"contrastive": info_nce(first, second, temperature=self.config.temperature)}

    def embed(self, batch: TextBatch) -> Tensor:
        return self.encoder.cls(batch, **self.prompts.reach(batch))  # (rows, H)
