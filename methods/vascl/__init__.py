"""VaSCL: SimCSE, and virtual copies that are hard to tell from the neighbours of a sentence.

Zhang et al., Findings of ACL 2022; vascl.md.
"""

from typing import Literal

from pydantic import Field

from harness import plugin
from harness.plugin import Optimisation, Stage


class Config(plugin.TrainingConfig):
    """vascl.md, section 3, says where the values come from."""

    setting: Literal["unsup"] = "unsup"
    learning_rate: float = Field(5e-6, gt=0)
    head_rate: float = Field(5e-4, gt=0, description="learning rate of the head")
    batch_size: int = Field(1024, ge=2, description="sentences")
    epochs: float = Field(5, gt=0)
    evaluation_interval: int = Field(500, ge=1)
    head_width: int = Field(128, ge=1, description="numbers of a vector behind the head")
    neighbours: int = Field(16, ge=1, description="K: sentences of the batch that are nearest")
    perturbation: float = Field(
        15.0, gt=0, description="delta: length of the step from a sentence to its virtual copy"
    )


class Declaration(plugin.Declaration[Config]):
    """The corpora, artefacts and stages of the method."""

    @classmethod
    def corpora(cls, config: Config) -> dict[str, str]:
        return {"contrastive": config.sentences}

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        return [
            config.stage(
                "contrastive",
                trains={"encoder.*": "learning_rate", "head.*": "head_rate"},
                losses={"contrastive": 1.0, "neighbourhood": 1.0},
                optimisation=Optimisation(schedule="constant"),
            )
        ]
