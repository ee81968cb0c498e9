"""The computations of BERT-flow; `__init__.py` declares the method."""

from collections.abc import Mapping

import torch
from torch import Tensor

from harness import plugin
from harness.encoders.pooling import pooled
from harness.errors import UserError
from harness.modules.vector_table import VectorTable
from harness.plugin import Kit, Stage, TextBatch

from . import Config, Declaration
from .flow import Flow


class Method(Declaration, plugin.FrozenMethod[Config]):
    """The flow trains; the encoder never changes."""

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.encoder = kit.encoder()
        width = self.encoder.hidden_size
        most = width.bit_length() - 1  # of which the last has the two channels of a coupling
        if config.levels > most:
            raise UserError(
                f"flow: levels = {config.levels}: vectors of width {width} have at most {most}"
            )
        self.flow = Flow(
            width,
            levels=config.levels,
            steps=config.steps_per_level,
            coupling_width=config.coupling_width,
            permutation=config.permutation,
        )
        if not config.vector_dropout:
            self.vectors = VectorTable(kit.artefact("vectors")["vectors"], kit.device)

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        texts = batch["corpus"]
        # All texts of an item are trained on, and the loss is the sum of the columns' means
        # (frozen_maps.md, section 1.3). Column by column: the first alone sets the ActNorms.
        columns = texts.split(self._vectors(texts))
        bits = torch.stack([self.flow.bits_per_dimension(column) for column in columns])
        return {"bits_per_dimension": bits.sum()}

    @torch.no_grad()
    def _vectors(self, texts: TextBatch) -> Tensor:
        """The vectors that the flow trains on, (rows, width)."""
        if self.config.vector_dropout:
            return self.base(texts)
        return self.vectors(texts.items).flatten(0, 1)

    def base(self, batch: TextBatch) -> Tensor:
        return pooled(self.encoder, batch, self.config.pooling)

    def transform(self, vectors: Tensor) -> Tensor:
        latent: Tensor = self.flow(vectors)[0]
        return latent
