"""AnglE: similar pairs have larger cosines, and larger sums of complex quotients, than others.

Li and Li, arXiv 2309.12871; angle.md.
"""

from collections.abc import Collection
from typing import Annotated, Literal

from pydantic import Field

from harness import plugin
from harness.choices import Pooling
from harness.data.shapes import Accepts
from harness.plugin import Stage


class Config(plugin.TrainingConfig):
    """angle.md, section 3, says where the values come from."""

    setting: Literal["sup"] = "sup"
    scored_pairs: Annotated[str | None, Accepts("scored pairs")] = Field(
        None, description="corpus of two sentences and a score; null: the triplets"
    )
    positive_score: float = Field(
        1.0, description="scored pairs of at least this are positives of the in-batch loss"
    )
    cosine_weight: float = Field(1.0, ge=0, description="w1, of the order of the cosines")
    in_batch_weight: float = Field(1.0, ge=0, description="w2, of contrast within the batch")
    angle_weight: float = Field(1.0, ge=0, description="w3, of the order of the complex quotients")
    cosine_scale: float = Field(20.0, gt=0, description="1 / tau of the cosines")
    in_batch_scale: float = Field(20.0, gt=0, description="1 / tau of the contrast")
    angle_scale: float = Field(1.0, gt=0, description="1 / tau of the complex quotients")
    pooling: Pooling = Field("cls", description="of the encoder's states")
    learning_rate: float = Field(5e-5, gt=0)
    batch_size: int = Field(128, ge=2, description="triplets or pairs")
    epochs: float = Field(10, gt=0)
    max_length: int = Field(128, ge=4, le=512)
    warmup_ratio: float = Field(0.0023, ge=0, le=1)
    evaluation_interval: int = Field(100, ge=1)

    @property
    def unused(self) -> Collection[str]:
        scales = {
            "cosine_scale": self.cosine_weight,
            "in_batch_scale": self.in_batch_weight,
            "angle_scale": self.angle_weight,
        }
        return {
            "temperature", "triplets" if self.scored_pairs else "positive_score",
            *(name for name, weight in scales.items() if not weight),
        }  # fmt: skip


class Declaration(plugin.Declaration[Config]):
    """The corpora, artefacts and stages of the method."""

    @classmethod
    def corpora(cls, config: Config) -> dict[str, str]:
        return {"pairs": config.scored_pairs or config.triplets}

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        weights = {
            "cosine": config.cosine_weight,
            "in-batch": config.in_batch_weight,
            "angle": config.angle_weight,
        }
        losses = {name: weight for name, weight in weights.items() if weight}
        return [config.stage("pairs", losses=losses, capturable=True)]
