"""The computations of A pretrained encoder as it is; `__init__.py` declares the method."""

from torch import Tensor

from harness import plugin
from harness.encoders.pooling import pooled
from harness.plugin import Kit, TextBatch

from . import Config, Declaration


class Method(Declaration, plugin.Method[Config]):
    """Nothing trains."""

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.encoder = kit.encoder()

    def embed(self, batch: TextBatch) -> Tensor:
        return pooled(self.encoder, batch, self.config.pooling)
