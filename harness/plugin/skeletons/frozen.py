"""NAME: what the method does, in one line.

Authors, venue; where the details come from.
"""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field
from torch import Tensor, nn

from harness import plugin
from harness.encoders.pooling import pooled
from harness.losses.nt_xent import nt_xent
from harness.modules.vector_table import VectorTable
from harness.plugin import Artefact, Batches, Kit, Stage, TextBatch
from harness.plugin.frozen_vectors import frozen_vectors


class Config(plugin.TrainingConfig):
    """The hyperparameters of the method; batch_size, epochs, temperature, ... are inherited."""

    setting: Literal["sup"] = "sup"
    learning_rate: float = Field(1e-3, gt=0, description="peak rate of the linear decay")
    pairs: str = Field("nli-entailments", description="corpus whose first two texts are similar")
    pooling: Literal["mean", "cls"] = Field("mean", description="of the frozen encoder")


class Method(plugin.FrozenMethod[Config]):
    """A linear map trains on vectors that the frozen encoder gives once for the whole corpus."""

    @classmethod
    def corpora(cls, config: Config) -> dict[str, str]:
        return {"pairs": config.pairs}  # stream -> corpus

    @classmethod
    def artefacts(cls, config: Config) -> list[Artefact]:
        # Trials that agree in the fields share the vectors.
        return [frozen_vectors(config.pairs, "pairs", config.pooling, config.max_length)]

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        # Batches hold the numbers of items alone, because the vectors are looked up.
        return [config.stage("pairs", trains=["map.*"], batches=Batches(text=False))]

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.encoder = kit.encoder()
        self.map = nn.Linear(self.encoder.hidden_size, self.encoder.hidden_size)
        self.vectors = VectorTable(kit.artefact("vectors")["vectors"], kit.device)

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        vectors = self.vectors(batch["pairs"].items)[:, :2]  # (items, 2, H)
        first, second = self.transform(vectors).unbind(1)  # (items, H) each
        return {"pairs": nt_xent(first, second, temperature=self.config.temperature)}

    def base(self, batch: TextBatch) -> Tensor:
        return pooled(self.encoder, batch, self.config.pooling)  # (rows, H)

    def transform(self, vectors: Tensor) -> Tensor:
        mapped: Tensor = self.map(vectors)
        return mapped
