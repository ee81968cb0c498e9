"""The computations of RankCSE; `__init__.py` declares the method."""

from collections.abc import Mapping

import torch
from torch import Tensor

from harness import plugin
from harness.losses.info_nce import info_nce
from harness.modules.heads import TanhHead
from harness.modules.vector_table import VectorTable
from harness.plugin import Kit, Stage, TextBatch

from . import Config, Declaration
from .losses import cosines, list_mle, list_net, ranking_consistency


class Method(Declaration, plugin.Method[Config]):
    """Encoder and head train. The encoder alone is tested."""

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.encoder = kit.encoder()
        self.head = TanhHead(self.encoder.hidden_size)
        self.teachers = [
            VectorTable(kit.artefact(name)["vectors"], kit.device) for name in config.teachers
        ]

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        config, texts = self.config, batch["contrastive"]
        rows = texts.repeated(2)
        first, second = rows.split(self.head(self.encoder.cls(rows)))  # (items, H) each
        similarity = cosines(first, second)
        found = {
            "contrastive": info_nce(first, second, temperature=config.temperature),
            "consistency": ranking_consistency(similarity / config.temperature),
        }
        if self.teachers:
            student, teacher = similarity / config.student_temperature, self._ranking(texts.items)
            if config.distillation == "list-net":
                found["distillation"] = list_net(student, teacher / config.teacher_temperature)
            else:
                found["distillation"] = list_mle(student, teacher)
        return found

    @torch.no_grad()
    def _ranking(self, items: Tensor) -> Tensor:
        """The teachers' similarities of all items, (items, items)."""
        vectors = (table(items)[:, 0] for table in self.teachers)
        first, *further = [cosines(each, each) for each in vectors]
        return first.lerp(further[0], 1 - self.config.teacher_weight) if further else first

    def embed(self, batch: TextBatch) -> Tensor:
        return self.encoder.cls(batch)
