"""CT: two encoders learn that their vectors agree on one sentence and on no other pair.

Carlsson et al., ICLR 2021 (contrastive tension); contrastive_tension.md.
"""

from typing import Literal, Self

from pydantic import Field, model_validator

from harness import plugin
from harness.errors import UserError
from harness.plugin import Batches, Optimisation, Stage


class Config(plugin.TrainingConfig):
    """contrastive_tension.md, section 2, says which values are sure."""

    setting: Literal["unsup"] = "unsup"
    learning_rate: float = Field(1e-5, gt=0, description="of the first 500 steps")
    batch_size: int = Field(16, ge=2, description="pairs; a multiple of negatives + 1")
    negatives: int = Field(7, ge=1, description="pairs of two sentences for each pair of one")
    max_steps: int | None = Field(50_000, ge=1)
    max_length: int = Field(75, ge=4, le=512)
    encoder_dropout: float | None = Field(
        0.0, ge=0, lt=1, description="in every layer of both encoders; null: the model's own"
    )
    gradient_clipping: float = Field(
        1e6, gt=0, description="largest norm of the gradient; in effect none"
    )
    evaluation_interval: int = Field(1000, ge=1)

    @model_validator(mode="after")
    def _whole_groups(self) -> Self:
        if self.batch_size % (self.negatives + 1):
            raise UserError(
                f"ct: batch_size {self.batch_size} is no multiple of negatives + 1 = "
                f"{self.negatives + 1}"
            )
        return self


class Declaration(plugin.Declaration[Config]):
    """The corpora, artefacts and stages of the method."""

    @classmethod
    def corpora(cls, config: Config) -> dict[str, str]:
        return {"tension": config.sentences}

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        stage = config.stage(
            "tension",
            trains=["encoder.*", "anchor_encoder.*"],
            batches=Batches(full=True),  # a batch is a whole number of groups
            optimisation=Optimisation(optimiser="rmsprop", schedule="stepped"),
        )
        return [stage]
