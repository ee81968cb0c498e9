"""NAME: what the method does, in one line.

Authors, venue; where the details come from.
"""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field
from torch import Tensor

from harness import plugin
from harness.encoders.pooling import pooled
from harness.losses.nli import PairClassifier, labels_of, pair_loss
from harness.plugin import Kit, Stage, TextBatch


class Config(plugin.TrainingConfig):
    """The hyperparameters of the method; batch_size, epochs, max_length, ... are inherited."""

    setting: Literal["sup"] = "sup"
    learning_rate: float = Field(2e-5, gt=0, description="peak rate of the linear decay")
    pairs: str = Field("nli-pairs", description="corpus of two texts and one of three labels")


class Method(plugin.Method[Config]):
    """Encoder and classifier train on labelled pairs. The encoder alone is tested."""

    @classmethod
    def corpora(cls, config: Config) -> dict[str, str]:
        return {"pairs": config.pairs}  # stream -> corpus

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        return [config.stage("pairs", losses={"classification": 1.0})]

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.encoder = kit.encoder()
        self.classifier = PairClassifier(self.encoder.hidden_size, classes=3)

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        pairs = batch["pairs"]  # rows 2i and 2i + 1 are the two texts of item i
        first, second = pairs.split(self.embed(pairs))  # (items, H) each
        return {"classification": pair_loss(self.classifier, first, second, labels_of(pairs))}

    def embed(self, batch: TextBatch) -> Tensor:
        return pooled(self.encoder, batch, "mean")  # (rows, H)
