"""Scored pairs: mean pooling, trained on people's similarity scores (SBERT's regression, CoSENT).

Reimers and Gurevych, EMNLP 2019, section 3; Su, 2022; scored_pairs.md.
"""

from collections.abc import Collection
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from harness import plugin
from harness.choices import Pooling
from harness.data.shapes import Accepts
from harness.plugin import LossWeight, Stage


class Config(plugin.TrainingConfig):
    """scored_pairs.md, section 2, says where the values come from."""

    setting: Literal["sup"] = "sup"
    objective: Literal["cosine-mse", "cosent"] = Field(
        "cosine-mse", description="cosines are fitted to the scores, or ordered as the scores are"
    )
    scored_pairs: Annotated[str, Accepts("scored pairs")] = Field(
        "stsb-train", description="corpus of two sentences and a score"
    )
    lowest_score: float = Field(0.0, description="the score that is cosine 0 (cosine-mse)")
    highest_score: float = Field(5.0, description="the score that is cosine 1 (cosine-mse)")
    scale: float = Field(20.0, gt=0, description="what cosines are multiplied by (cosent)")
    pooling: Pooling = Field("mean", description="of the encoder's states")
    learning_rate: float = Field(2e-5, gt=0)
    batch_size: int = Field(16, ge=2, description="pairs")
    epochs: float = Field(4, gt=0)
    max_length: int = Field(128, ge=4, le=512)
    warmup_ratio: float = Field(0.1, ge=0, le=1)
    weight_decay: float = Field(0.01, ge=0)

    @property
    def unused(self) -> Collection[str]:
        """The fields of the other objective."""
        if self.objective == "cosent":
            return ("lowest_score", "highest_score")
        return ("scale",)

    @model_validator(mode="after")
    def _a_range(self) -> Self:
        if self.lowest_score >= self.highest_score:
            raise ValueError("lowest_score must be below highest_score")
        return self


class Declaration(plugin.Declaration[Config]):
    """The corpora, artefacts and stages of the method."""

    @classmethod
    def corpora(cls, config: Config) -> dict[str, str]:
        return {"pairs": config.scored_pairs}

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        losses: dict[str, LossWeight] = {config.objective: 1.0}
        streams = {"pairs": config.batch_size}
        return [config.stage("similarity", streams=streams, losses=losses, capturable=True)]
