"""The hyperparameters of low-rank changes (LoRA), which train in the place of an encoder."""

from pydantic import BaseModel, Field

from harness.choices import LowRank


class LowRankConfig(BaseModel):
    """The fields of every method that trains about low-rank changes of its encoder."""

    lora_rank: int | None = Field(
        None,
        ge=1,
        description="train low-rank changes of this rank in every linear layer of the encoder, and "
        "not its weights; null: its weights",
    )
    lora_alpha: float = Field(
        16.0, gt=0, description="the changes are multiplied by lora_alpha / lora_rank"
    )

    @property
    def low_rank(self) -> LowRank | None:
        """Both fields; None: the weights themselves train."""
        return None if self.lora_rank is None else LowRank(self.lora_rank, self.lora_alpha)
