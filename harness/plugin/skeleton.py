"""The plugin that `harness new` writes."""

SKELETON = '''"""{name}: what the method does, in one line.

Authors, venue; where the details come from.
"""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field
from torch import Tensor

from harness import plugin
from harness.data.batching import TextBatch
from harness.modules.heads import TanhHead
from harness.plugin import Kit
from harness.plugin import Stage
from harness.losses.info_nce import info_nce


class Config(plugin.TrainingConfig):
    """Hyperparameters of the method; the defaults are the paper's best."""

    learning_rate: float = Field(3e-5, gt=0)
    published: ClassVar = {{("unsup", "roberta-base"): {{"learning_rate": 1e-5}}}}


class Method(plugin.Method):
    """What trains, on what, towards what."""

    config_type = Config

    @classmethod
    def data(cls, config: Config) -> dict[str, str]:
        return {{"contrastive": config.sentences}}

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        return [
            Stage(
                name="contrastive",
                trains={{"*": "learning_rate"}},  # parameter-name pattern -> field with its learning rate
                streams={{"contrastive": config.batch_size}},
                losses={{"contrastive": 1.0}},
                epochs=config.epochs,
                max_steps=config.max_steps,
            )
        ]

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.encoder = kit.encoder()
        self.head = TanhHead(self.encoder.hidden_size)

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        texts = batch["contrastive"].repeated(2)
        first, second = self.head(self.encoder.cls(texts)).unflatten(0, (-1, 2)).unbind(1)
        return {{"contrastive": info_nce(first, second, temperature=self.config.temperature)}}

    def embed(self, batch: TextBatch) -> Tensor:
        return self.encoder.cls(batch)
'''
