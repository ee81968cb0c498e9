"""The computations of CLSR; `__init__.py` declares the method."""

from collections.abc import Mapping

from torch import Tensor, nn

from harness import plugin
from harness.encoders.pooling import pooled
from harness.losses.nt_xent import nt_xent
from harness.modules.vector_table import VectorTable
from harness.plugin import Kit, Stage, TextBatch

from . import Config, Declaration

WIDTH = 768
"""Of the vectors that e of the paper makes, and of its hidden layer"""


class Method(Declaration, plugin.FrozenMethod[Config]):
    """A network e on frozen vectors, trained under a linear head h that is dropped at test time.

    e and h are the paper's names (section 3).
    """

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.encoder = kit.encoder()
        hidden = [nn.ReLU()] if config.relu in ("both", "hidden") else []
        output = [nn.ReLU()] if config.relu in ("both", "output") else []
        first, second = nn.Linear(self.encoder.hidden_size, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(first, *hidden, second, *output)  # e
        self.head = nn.Linear(WIDTH, WIDTH)  # h
        self.vectors = VectorTable(kit.artefact("vectors")["vectors"], kit.device)

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        # (items, columns, width) -> (items, 2, width): a corpus may have further columns.
        pairs = self.vectors(batch["pairs"].items)[:, :2]
        first, second = self.head(self.mlp(pairs)).unbind(1)
        loss = nt_xent(first, second, temperature=self.config.temperature)  # eq. 1
        return {"contrastive": loss}

    def base(self, batch: TextBatch) -> Tensor:
        return pooled(self.encoder, batch, self.config.pooling)

    def transform(self, vectors: Tensor) -> Tensor:
        transformed: Tensor = self.mlp(vectors)
        return transformed
