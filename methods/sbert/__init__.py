"""SBERT: mean pooling, trained by a softmax over labelled NLI pairs.

Reimers and Gurevych, EMNLP 2019; sbert.md.
"""

from typing import Annotated, Literal

from pydantic import Field

from harness import plugin
from harness.data.shapes import Accepts
from harness.plugin import Optimisation, Selection, Stage


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


class Declaration(plugin.Declaration[Config]):
    """The corpora, artefacts and stages of the method."""

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
