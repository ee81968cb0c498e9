"""A pretrained encoder as it is: [CLS], mean, first-last or last-two pooling; evaluation only.

plain_encoders.md, section 1.
"""

from typing import Literal

from pydantic import Field
from torch import Tensor

from harness import plugin
from harness.encoders.pooling import Pooling, pooled
from harness.plugin import Kit, TextBatch


class Config(plugin.MethodConfig):
    """plain_encoders.md, section 1, has the poolings."""

    setting: Literal["unsup"] = "unsup"
    pooling: Pooling = Field("cls", description="which hidden states are averaged")


class Method(plugin.Method[Config]):
    """Nothing trains."""

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.encoder = kit.encoder()

    def embed(self, batch: TextBatch) -> Tensor:
        return pooled(self.encoder, batch, self.config.pooling)
