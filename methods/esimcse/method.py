"""The computations of ESimCSE; `__init__.py` declares the method."""

from collections.abc import Mapping

import torch
from torch import Tensor

from harness import plugin
from harness.losses.info_nce import info_nce
from harness.modules.heads import TanhHead
from harness.modules.momentum import MomentumEncoder, VectorQueue
from harness.plugin import Kit, Stage, TextBatch

from . import Config, Declaration
from .repetition import repetition_views


class Method(Declaration, plugin.Method[Config]):
    """Encoder and head train, and the momentum encoder follows. The encoder alone is tested."""

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.encoder = kit.encoder()
        width = self.encoder.hidden_size
        self.head = TanhHead(width)
        self.queue = VectorQueue(config.queue_size, width)
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
