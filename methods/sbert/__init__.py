"""SBERT: mean pooling, trained by a softmax over labelled NLI pairs.

Reimers and Gurevych, EMNLP 2019; baselines.md, section 5.
"""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field
from torch import Tensor

from harness import method
from harness.data.batching import TextBatch
from harness.encoders.pooling import pooled
from harness.kit import Kit
from harness.method import Stage
from harness.objectives.nli import PairClassifier, labels_of, pair_loss


class Config(method.TrainingConfig):
    """The paper's recipe: every labelled pair of SNLI and MultiNLI once."""

    setting: Literal["sup"] = "sup"
    learning_rate: float = Field(2e-5, gt=0)
    batch_size: int = Field(16, ge=2, description="pairs")
    max_length: int = Field(128, ge=4, le=512)
    warmup_ratio: float = Field(0.1, ge=0, le=1)
    weight_decay: float = Field(0.01, ge=0)
    evaluation_interval: int = Field(1000, ge=1)
    pairs: str = Field("nli-pairs", description="corpus of premise, hypothesis and one of three labels")


class Method(method.Method):
    """Encoder and classifier train; the classifier is dropped at test time."""

    config_type = Config

    @classmethod
    def data(cls, config: Config) -> dict[str, str]:
        return {"pairs": config.pairs}

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        return [
            Stage(
                name="classification",
                trains={"*": "learning_rate"},
                streams={"pairs": config.batch_size},
                losses={"classification": 1.0},
                epochs=config.epochs,
                max_steps=config.max_steps,
                optimiser="adamw-uncorrected",
            )
        ]

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.encoder = kit.encoder()
        self.classifier = PairClassifier(self.encoder.hidden_size, classes=3)

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        pairs = batch["pairs"]
        labels = labels_of(pairs)
        premises, hypotheses = self.embed(pairs).unflatten(0, (-1, 2)).unbind(1)  # type: ignore[no-untyped-call]
        return {"classification": pair_loss(self.classifier, premises, hypotheses, labels)}

    def embed(self, batch: TextBatch) -> Tensor:
        return pooled(self.encoder, batch, "mean")
