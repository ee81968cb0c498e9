"""NAME: what the method does, in one line.

Authors, venue; where the details come from.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field
from torch import Tensor

from harness import plugin
from harness.data.shapes import Accepts
from harness.encoders.pooling import pooled
from harness.losses.scored_pairs import cosent
from harness.plugin import Kit, Stage, TextBatch


class Config(plugin.TrainingConfig):
    """The hyperparameters of the method; batch_size, epochs, max_length, ... are inherited."""

    setting: Literal["sup"] = "sup"
    learning_rate: float = Field(2e-5, gt=0, description="peak rate of the linear decay")
    scored_pairs: Annotated[str, Accepts("scored pairs")] = Field(
        "stsb-train", description="corpus of two sentences and a score"
    )
    scale: float = Field(20.0, gt=0, description="what cosines are multiplied by")


class Method(plugin.Method[Config]):
    """The cosines of pairs are put in the order of the scores that people gave them."""

    @classmethod
    def corpora(cls, config: Config) -> dict[str, str]:
        return {"pairs": config.scored_pairs}  # stream -> corpus

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        return [config.stage("pairs", losses={"cosent": 1.0})]

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.encoder = kit.encoder()

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        pairs = batch["pairs"]  # rows 2i and 2i + 1 are the two sentences of item i
        assert pairs.labels is not None  # (items,), the scores: the corpus is of scored pairs
        first, second = pairs.split(self.embed(pairs))  # (items, H) each
        return {"cosent": cosent(first, second, pairs.labels, scale=self.config.scale)}

    def embed(self, batch: TextBatch) -> Tensor:
        return pooled(self.encoder, batch, "mean")  # (rows, H)
