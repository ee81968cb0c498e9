"""The computations of DCLR; `__init__.py` declares the method."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from harness import plugin
from harness.losses.info_nce import cosines
from harness.modules.heads import TanhHead
from harness.modules.vector_table import VectorTable
from harness.plugin import Kit, Stage, TextBatch

from . import VECTORS, Config, Declaration
from .losses import debiased_contrast, hardened


class Method(Declaration, plugin.Method[Config]):
    """Encoder and head train. The encoder alone is tested."""

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.encoder = kit.encoder()
        width = self.encoder.hidden_size
        self.head = nn.Sequential(*(TanhHead(width) for _ in range(config.head_layers)))
        self.teacher = VectorTable(kit.artefact(VECTORS)["vectors"], kit.device)

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        config, texts = self.config, batch["contrastive"]
        rows = texts.repeated(2)
        first, second = rows.split(self.head(self.encoder.cls(rows)))  # (items, H) each
        vectors = self.teacher(texts.items)[:, 0]
        alike = cosines(vectors, vectors) > config.similarity_bound
        count = int(len(first) * config.noise_ratio)
        drawn = torch.randn(count, first.shape[1], device=first.device)
        noise = hardened(
            drawn, first, second, steps=config.ascent_steps, rate=config.ascent_rate,
            temperature=config.temperature,
        )  # fmt: skip
        loss = debiased_contrast(first, second, noise, alike, temperature=config.temperature)
        return {"contrastive": loss}

    def embed(self, batch: TextBatch) -> Tensor:
        return self.encoder.cls(batch)

    def embed_dev(self, batch: TextBatch) -> Tensor:
        states = self.embed(batch)
        headed: Tensor = self.head[0](states) if self.config.dev_head else states
        return headed
