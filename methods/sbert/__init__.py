"""SBERT: mean pooling, trained by a softmax over labelled NLI pairs.

Reimers and Gurevych, EMNLP 2019; sbert.md.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field
from torch import Tensor

from harness import plugin
from harness.data.shapes import Accepts
from harness.encoders.pooling import pooled
from harness.losses.nli import PairClassifier, labels_of, pair_loss
from harness.plugin import Kit, Optimisation, Selection, Stage, TextBatch


class Config(plugin.TrainingConfig):
    """sbert.md, section 2: every labelled pair of SNLI and MultiNLI once."""

    setting: Literal["sup"] = "sup"
    learning_rate: float = Field(2e-5, gt=0)
    batch_size: int = Field(16, ge=2, description="pairs")
    max_length: int = Field(128, ge=4, le=512)
    warmup_ratio: float = Field(0.1, ge=0, le=1)
    weight_decay: float = Field(0.01, ge=0)
    evaluation_interval: int = Field(1000, ge=1)
    pairs: Annotated[str, Accepts("labelled pairs")] = Field(
        "nli-pairs", description="corpus of premise, hypothesis and one of three labels"
    )


class Method(plugin.Method[Config]):
    """Encoder and classifier train. The classifier is dropped at test time."""

    @classmethod
    def corpora(cls, config: Config) -> dict[str, str]:
        return {"pairs": config.pairs}

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        streams = {"pairs": config.batch_size}
        uncorrected = Optimisation(optimiser="adamw-uncorrected")
        ends = Selection(epoch_ends=True)
        return [
            config.stage(
                "classification", streams=streams, optimisation=uncorrected, selection=ends
            )
        ]

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.encoder = kit.encoder()
        self.classifier = PairClassifier(self.encoder.hidden_size, classes=3)

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        pairs = batch["pairs"]
        labels = labels_of(pairs)
        u, v = pairs.split(self.embed(pairs))  # (items, H) each
        # The classifier reads [u, v, |u - v|] (sbert.md, section 1).
        return {"classification": pair_loss(self.classifier, u, v, labels)}

    def embed(self, batch: TextBatch) -> Tensor:
        return pooled(self.encoder, batch, "mean")
