"""NAME: what the method does, in one line.

Authors, venue; where the details come from.
"""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field
from torch import Tensor

from harness import plugin
from harness.losses.info_nce import info_nce
from harness.losses.nli import PairClassifier, triplet_loss
from harness.modules.heads import TanhHead
from harness.plugin import Kit, Selection, Stage, TextBatch


class Config(plugin.TrainingConfig):
    """The hyperparameters of the method; batch_size, epochs, temperature, ... are inherited."""

    setting: Literal["semisup"] = "semisup"
    classification_rate: float = Field(2e-5, gt=0, description="learning rate of the first stage")


class Method(plugin.Method[Config]):
    """First a softmax on labelled triplets, then contrastive learning from its best weights."""

    @classmethod
    def corpora(cls, config: Config) -> dict[str, str]:
        return {"labelled": config.triplets, "contrastive": config.sentences}

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        first = config.stage(
            "labelled",
            trains=dict.fromkeys(["encoder.*", "classifier.*"], "classification_rate"),
            losses={"classification": 1.0},
            selection=Selection(own_run=True),  # the second stage starts from its best weights
        )
        return [first, config.stage("contrastive", trains=["encoder.*", "head.*"])]

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.encoder = kit.encoder()
        self.classifier = PairClassifier(self.encoder.hidden_size, classes=2)
        self.head = TanhHead(self.encoder.hidden_size)

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        if stage.name == "labelled":
            texts = batch["labelled"]  # premise, entailment and contradiction of every item
            vectors = texts.split(self.embed(texts))  # three times (items, H)
            return {"classification": triplet_loss(self.classifier, *vectors)}
        texts = batch["contrastive"].repeated(2)
        first, second = texts.split(self.head(self.embed(texts)))  # (items, H) each
        return {"contrastive": info_nce(first, second, temperature=self.config.temperature)}

    def embed(self, batch: TextBatch) -> Tensor:
        return self.encoder.cls(batch)  # (rows, H)
