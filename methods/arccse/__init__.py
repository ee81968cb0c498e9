"""ArcCSE: SimCSE with a margin between angles, and sentences in the order of what is masked.

Zhang et al., ACL 2022; arccse.md.
"""

from typing import Literal, Self

from pydantic import Field, model_validator

from harness import plugin
from harness.plugin import Stage


class Config(plugin.TrainingConfig):
    """arccse.md, section 4, says where the values come from."""

    setting: Literal["unsup"] = "unsup"
    angular_margin: float = Field(
        10.0,
        ge=0,
        lt=90,
        description="m, in degrees: added to the angle of the views of a sentence",
    )
    triplet_weight: float = Field(0.1, ge=0, description="lambda, of the order of masked copies")
    triplet_margin: float = Field(
        0.0, ge=0, description="by how much the nearer copy has the higher cosine"
    )
    smaller_ratio: float = Field(
        0.2, ge=0, le=1, description="share of the word pieces masked in the nearer copy"
    )
    larger_ratio: float = Field(
        0.4, ge=0, le=1, description="share masked in the farther copy, around the same place"
    )

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.smaller_ratio > self.larger_ratio:
            raise ValueError("smaller_ratio must not be above larger_ratio")
        return self


class Declaration(plugin.Declaration[Config]):
    """The corpora, artefacts and stages of the method."""

    @classmethod
    def corpora(cls, config: Config) -> dict[str, str]:
        return {"contrastive": config.sentences}

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        losses = {"contrastive": 1.0, "triplet": config.triplet_weight}
        return [config.stage("contrastive", losses=losses)]
