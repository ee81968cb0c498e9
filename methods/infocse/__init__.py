"""InfoCSE: an auxiliary network finds masked words again with the help of the sentence vector.

Wu et al., Findings of EMNLP 2022; infocse.md.
"""

from typing import ClassVar, Literal

from pydantic import Field

from harness import plugin
from harness.choices import HeadName
from harness.plugin import Stage


class Config(plugin.TrainingConfig):
    """infocse.md, section 3; the field defaults are those of BERT base."""

    setting: Literal["unsup"] = "unsup"
    learning_rate: float = Field(7e-6, gt=0)
    epochs: float = Field(2, gt=0)
    head: HeadName = Field("batchnorm", description="between encoder and contrastive loss")
    lower_layers: int | None = Field(
        None,
        ge=1,
        description="layers of the frozen copy that reads masked sentences; null: half of them",
    )
    auxiliary_layers: int = Field(2, ge=1, description="layers of the auxiliary network")
    masking_ratio: float = Field(0.4, gt=0, lt=1, description="share of word pieces to find again")
    reconstruction_weight: float = Field(1e-5, gt=0, description="lambda, of the masked-LM loss")

    published: ClassVar = {
        ("unsup", "bert-large-uncased"): {"lower_layers": 6, "masking_ratio": 0.3}
    }


class Declaration(plugin.Declaration[Config]):
    """The corpora, artefacts and stages of the method."""

    @classmethod
    def corpora(cls, config: Config) -> dict[str, str]:
        return {"contrastive": config.sentences}

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        trains = ["encoder.*", "head.*", "auxiliary.*", "vocabulary.*"]
        losses = {"contrastive": 1.0, "reconstruction": config.reconstruction_weight}
        return [config.stage("contrastive", trains=trains, losses=losses)]
