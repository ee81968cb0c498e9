"""How the steps of a training are computed: by one process or by several.

None of these fields changes a loss or a gradient but by the masks that dropout draws. A trial's key
does not have them, so that another number of processes can go on with it; its record does.
"""

from typing import ClassVar, Literal, Self

from pydantic import BaseModel, Field, model_validator

from harness.errors import UserError

EngineName = Literal["single", "ddp", "deepspeed"]


class EngineConfig(BaseModel):
    """The fields of every method that trains about the processes that train it."""

    engine: EngineName = Field(
        "single",
        description="one process (single), or several with whole models (ddp) or sharded ones "
        "(deepspeed)",
    )
    workers: int = Field(
        1, ge=1, description="processes of one trial, which share out each batch of batch_size"
    )
    zero: Literal[1, 2, 3] = Field(
        2,
        description="of deepspeed: what is sharded, the optimiser's state (1), gradients too (2), "
        "weights too (3)",
    )
    offload_optimiser: bool = Field(
        False, description="of deepspeed: keep the optimiser's state in the memory of the CPU"
    )
    offload_parameters: bool = Field(
        False, description="of deepspeed with zero 3: keep sharded weights in the CPU's memory"
    )
    chunk_size: int | None = Field(
        None,
        ge=1,
        description="rows of a batch whose activations exist at a time; the loss is that of the "
        "whole batch",
    )

    COMPUTED: ClassVar = frozenset(
        {"engine", "workers", "zero", "offload_optimiser", "offload_parameters", "chunk_size"}
    )
    """The names of these fields"""

    @model_validator(mode="after")
    def _engine_fits(self) -> Self:
        if self.engine == "single" and self.workers > 1:
            raise UserError(
                f"workers: {self.workers} need the engine ddp or deepspeed; add engine=ddp"
            )
        if self.engine != "deepspeed":
            for name in ("offload_optimiser", "offload_parameters"):
                if getattr(self, name):
                    raise UserError(f"{name} needs the engine deepspeed; add engine=deepspeed")
        if self.offload_parameters and self.zero != 3:
            raise UserError("offload_parameters needs sharded weights; add zero=3")
        if self.shards_weights and self.chunk_size and getattr(self, "gradient_checkpointing", 0):
            raise UserError(
                "gradient_checkpointing inside of chunks does not work with zero=3; leave out "
                "gradient_checkpointing, since a chunk keeps no activations either"
            )
        return self

    @property
    def shards_weights(self) -> bool:
        """Whether each of the ranks has only its part of the weights."""
        return self.engine == "deepspeed" and self.zero == 3
