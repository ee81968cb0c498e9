"""IS-BERT: convolutions on BERT, whose mean knows the tokens of its own sentence.

Zhang, He, Liu, Lim and Bing, EMNLP 2020; isbert.md.
"""

from typing import Literal

from pydantic import Field

from harness import plugin
from harness.plugin import Optimisation, Stage


class Config(plugin.TrainingConfig):
    """isbert.md, section 2, says which values are sure."""

    setting: Literal["unsup"] = "unsup"
    learning_rate: float = Field(1e-6, gt=0)
    batch_size: int = Field(32, ge=2, description="items; a pair of the corpus is two sentences")
    max_length: int = Field(128, ge=4, le=512)
    warmup_ratio: float = Field(0.1, ge=0, le=1, description="share of the steps that warm up")
    weight_decay: float = Field(0.01, ge=0)
    filters: int = Field(256, ge=1, description="of each of the three convolutions")
    sentences: str = Field("nli-pairs", description="corpus, whose labels are not looked at")
    evaluation_interval: int = Field(1000, ge=1)


class Declaration(plugin.Declaration[Config]):
    """The corpora, artefacts and stages of the method."""

    @classmethod
    def corpora(cls, config: Config) -> dict[str, str]:
        return {"information": config.sentences}

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        uncorrected = Optimisation(optimiser="adamw-uncorrected")
        return [config.stage("information", optimisation=uncorrected)]
