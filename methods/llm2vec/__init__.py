"""LLM2Vec: a decoder learns to see later tokens, and then to tell sentences apart.

BehnamGhader et al., COLM 2024; llm2vec.md.
"""

from collections.abc import Collection
from typing import ClassVar, Literal

from pydantic import Field

from harness import plugin
from harness.choices import DecoderAttention
from harness.plugin import Optimisation, Selection, Stage

OF_STAGE_1 = (
    "stage1_learning_rate", "stage1_batch_size", "masking_ratio", "masking_strategy",
)  # fmt: skip
AFTER_STAGE_1 = {
    "learning_rate", "batch_size", "epochs", "max_steps", "accumulation", "temperature",
}  # fmt: skip
"""Fields that change nothing in stage 1. Trials that differ in them alone run it once."""
CONSTANT = Optimisation(schedule="constant")
"""llm2vec.md, section 2"""


class Config(plugin.TrainingConfig):
    """llm2vec.md, section 3; the field defaults are those of the released commands."""

    setting: Literal["unsup"] = "unsup"
    decoder_pooling: Literal["mean"] = Field("mean", description="over the tokens of a sentence")
    decoder_attention: DecoderAttention = "bidirectional"
    learning_rate: float = Field(3e-5, gt=0, description="of the contrastive stage")
    batch_size: int = Field(128, ge=2, description="sentences of the contrastive stage")
    max_steps: int | None = Field(1000, ge=1, description="of the contrastive stage")
    max_length: int = Field(128, ge=4, le=512)
    encoder_dropout: float | None = Field(
        0.3, ge=0, lt=1, description="in every layer; that of attention is on in stage 2 alone"
    )
    lora_rank: int | None = Field(16, ge=1, description="null: the weights themselves train")
    lora_alpha: float = Field(32.0, gt=0)
    stage1_steps: int = Field(1000, ge=0, description="of masked next-token prediction")
    stage1_learning_rate: float = Field(5e-5, gt=0)
    stage1_batch_size: int = Field(32, ge=1, description="sentences")
    masking_ratio: float = Field(0.2, gt=0, le=1, description="share of word pieces to predict")
    masking_strategy: Literal["bert", "all"] = Field(
        "bert", description="80 % of the chosen pieces are masked, 10 % replaced; or all are masked"
    )

    published: ClassVar = {
        ("unsup", "mistralai/Mistral-7B-Instruct-v0.2"): {
            "masking_ratio": 0.8, "masking_strategy": "all",
        },
    }  # fmt: skip

    @property
    def unused(self) -> Collection[str]:
        return () if self.stage1_steps else OF_STAGE_1


class Declaration(plugin.Declaration[Config]):
    """The corpora, artefacts and stages of the method."""

    @classmethod
    def corpora(cls, config: Config) -> dict[str, str]:
        return {"masked": config.sentences, "contrastive": config.sentences}

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        first = Stage(
            "masked",
            trains={"encoder.*": "stage1_learning_rate"},
            streams={"masked": config.stage1_batch_size},
            losses={"masked": 1.0},
            epochs=None,  # sentences start again until the steps are done
            max_steps=config.stage1_steps,
            optimisation=CONSTANT,
            selection=Selection("last", evaluation_interval=config.stage1_steps, own_run=True),
            shared=tuple(name for name in type(config).model_fields if name not in AFTER_STAGE_1),
        )
        second = config.stage("contrastive", trains=["encoder.*"], optimisation=CONSTANT)
        return [first, second] if config.stage1_steps else [second]
