"""The computations of PCL; `__init__.py` declares the method."""

from collections.abc import Mapping

import torch
from torch import Tensor

from harness import plugin
from harness.losses.info_nce import info_nce
from harness.modules.heads import TanhHead
from harness.plugin import Kit, Stage, TextBatch

from . import Config, Declaration
from .augmentations import augmented_views
from .losses import peer_network, peer_positive


class Method(Declaration, plugin.Method[Config]):
    """Both networks train under one head. The encoder alone is tested."""

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.encoder, self.peer = kit.encoder(), kit.encoder()
        width = self.encoder.hidden_size
        self.head, self.peer_pooler = TanhHead(width), TanhHead(width)

    def prepared(self, batch: Mapping[str, TextBatch], stage: Stage) -> Mapping[str, TextBatch]:
        views = augmented_views(
            batch["contrastive"], self.template, rounds=self.config.rounds,
            rate=self.config.change_rate, limit=self.training_pieces,
            pad_id=self.tokenizer.pad_token_id,
        )  # fmt: skip
        return {**batch, "views": views}

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        rows, temperature = batch["views"], self.config.temperature
        states = self.encoder.cls(rows), self.peer_pooler(self.peer.cls(rows))
        own, peer = (self.head(each).unflatten(0, (-1, rows.views)) for each in states)
        contrast = [info_nce(each[:, 0], each[:, 1], temperature=temperature)
                    for each in (own, peer)]  # fmt: skip
        positive = [peer_positive(each, temperature=temperature) for each in (own, peer)]
        return {
            "contrastive": torch.stack(contrast).sum(),
            "peer-positive": torch.stack(positive).sum(),
            "peer-network": peer_network(own, peer, temperature=temperature),
        }

    def embed(self, batch: TextBatch) -> Tensor:
        return self.encoder.cls(batch)
