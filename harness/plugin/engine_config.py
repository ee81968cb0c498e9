"""The hyperparameters about the processes that train a method: their number, and what each keeps.

A user's own configuration of DeepSpeed may have the entries that change speed and memory, and no
result. The others are refused, because a field of ours decides them, or because they round numbers
that workers send one another.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, Field, model_validator

from harness.errors import UserError, suggest
from harness.inputs import read_text, regular_file
from harness.plugin.stage import Stage

SPEED: Mapping[str, type[int]] = {
    "zero_optimization.allgather_bucket_size": int,
    "zero_optimization.allgather_partitions": bool,
    "zero_optimization.contiguous_gradients": bool,
    "zero_optimization.offload_optimizer.pin_memory": bool,
    "zero_optimization.offload_param.pin_memory": bool,
    "zero_optimization.overlap_comm": bool,
    "zero_optimization.reduce_bucket_size": int,
    "zero_optimization.reduce_scatter": bool,
    "zero_optimization.stage3_max_live_parameters": int,
    "zero_optimization.stage3_max_reuse_distance": int,
    "zero_optimization.stage3_model_persistence_threshold": int,
    "zero_optimization.stage3_param_persistence_threshold": int,
    "zero_optimization.stage3_prefetch_bucket_size": int,
    "zero_optimization.stage3_use_all_reduce_for_fetch_params": bool,
    "zero_optimization.sub_group_size": int,
    "zero_optimization.use_multi_rank_bucket_allreduce": bool,
}
"""Entries that may be set -> the type of their values; numbers are from 1"""
DECIDED = {
    "activation_checkpointing": "the field gradient_checkpointing decides it",
    "amp": "the field precision decides it",
    "bf16": "the field precision decides it",
    "bfloat16": "the field precision decides it",
    "communication_data_type": "it would round what workers send one another",
    "data_types": "the field precision decides it",
    "fp16": "the field precision decides it",
    "gradient_accumulation_steps": "the field accumulation decides it",
    "gradient_clipping": "the field gradient_clipping decides it",
    "optimizer": "the method, learning_rate and weight_decay decide it",
    "scheduler": "the method and warmup_ratio decide it",
    "torch_autocast": "the field precision decides it",
    "train_batch_size": "the field batch_size decides it",
    "train_micro_batch_size_per_gpu": "the fields batch_size and workers decide it",
    "zero_optimization.cpu_offload": "the field offload_optimiser decides it",
    "zero_optimization.cpu_offload_param": "the field offload_parameters decides it",
    "zero_optimization.offload_optimizer": "the field offload_optimiser decides it",
    "zero_optimization.offload_param": "the field offload_parameters decides it",
    "zero_optimization.stage": "the field zero decides it",
    "zero_optimization.zero_quantized_gradients": "it would round what workers send one another",
    "zero_optimization.zero_quantized_weights": "it would round what workers send one another",
}
"""Entries, or whole parts, that are refused -> why"""


def settings_in(value: Any) -> Any:
    """The entries in a file, of which the value is the path, or the entries themselves.

    Raises UserError for a file that cannot be read, and for the first entry that is refused.
    """
    where = "deepspeed"
    if isinstance(value, str | Path):
        path = Path(value).expanduser()
        where, text = str(value), read_text(regular_file(path, "deepspeed: "), "deepspeed: ")
        try:
            value = json.loads(text)
        except ValueError as error:
            raise UserError(f"deepspeed: {where} is not JSON ({error})") from None
        if not isinstance(value, dict):
            raise UserError(f"deepspeed: {where} must hold entries in braces, as DeepSpeed reads")
    if not isinstance(value, Mapping):
        return value  # None, or what is no configuration
    merged: dict[str, Any] = {}
    for name, entry in _entries(value):
        merge(merged, _nested(name, _checked(name, entry, where)))
    return merged


def merge(settings: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Put entries into settings, beside those that are in the same part."""
    for name, value in more.items():
        if isinstance(value, Mapping):
            merge(settings.setdefault(name, {}), value)
        else:
            settings[name] = value


def _entries(settings: Mapping[str, Any], part: str = "") -> Iterator[tuple[str, Any]]:
    """All entries by their names with dots."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _entries(value, f"{part}{name}.")
        else:
            yield f"{part}{name}", value


def _nested(name: str, value: Any) -> dict[str, Any]:
    first, dot, rest = name.partition(".")
    return {first: _nested(rest, value) if dot else value}


def _checked(name: str, value: Any, where: str) -> Any:
    """The value of an entry. Raises UserError when it is refused."""
    kind = SPEED.get(name)
    if kind is None:
        parts = name.split(".")
        above = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
        decided = next(
            (f"{DECIDED[each]}; leave it out" for each in above if each in DECIDED), None
        )
        why = decided or f"only entries that change no result may be set{suggest(name, SPEED)}"
        raise UserError(f"deepspeed: {name} in {where} is refused: {why}")
    if kind is bool:
        valid = isinstance(value, bool)
    else:  # DeepSpeed's own examples write 5e8, which is a float
        valid = type(value) in (int, float) and value >= 1 and value % 1 == 0
    if not valid:
        wanted = "true or false" if kind is bool else "a whole number from 1"
        raise UserError(f"deepspeed: {name} in {where} must be {wanted}, not {json.dumps(value)}")
    return kind(value)


EngineName = Literal["single", "ddp", "deepspeed", "fsdp"]


class EngineConfig(BaseModel):
    """The fields of every method that trains about the processes that train it.

    None of them changes a loss or a gradient but by the masks that dropout draws. A trial's key
    does not have them, so that another number of processes can go on with it; its record does.
    """

    engine: EngineName = Field(
        "single",
        description="one process (single), or several with whole models (ddp) or sharded ones "
        "(deepspeed, or torch's own FSDP2, fsdp)",
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
    deepspeed: Annotated[dict[str, Any] | None, BeforeValidator(settings_in)] = Field(
        None,
        description="of deepspeed: your own configuration file of it, or what stands in it, with "
        "entries that change speed and memory alone",
    )
    chunk_size: int | None = Field(
        None,
        ge=1,
        description="rows of a batch whose activations exist at a time; the loss is that of the "
        "whole batch",
    )
    cuda_graphs: bool = Field(
        False,
        description="launch a whole step at once, as a CUDA graph, where batches have a shape that "
        "was there before; on a GPU, with the engine single",
    )

    @model_validator(mode="after")
    def _engine_fits(self) -> Self:
        if self.engine == "single" and self.workers > 1:
            raise UserError(
                f"workers: {self.workers} need the engine ddp, deepspeed or fsdp; add engine=ddp"
            )
        if self.engine != "deepspeed":
            for name in ("offload_optimiser", "offload_parameters", "deepspeed"):
                if getattr(self, name):
                    raise UserError(f"{name} needs the engine deepspeed; add engine=deepspeed")
        if self.offload_parameters and self.zero != 3:
            raise UserError("offload_parameters needs sharded weights; add zero=3")
        if self.shards_weights and self.chunk_size and getattr(self, "gradient_checkpointing", 0):
            raise UserError(
                "gradient_checkpointing inside of chunks does not work with sharded weights; leave "
                "out gradient_checkpointing, since a chunk keeps no activations either"
            )
        if not self.cuda_graphs:
            return self
        if self.engine != "single":
            raise UserError(
                f"cuda_graphs needs one process, and engine is {self.engine}; set cuda_graphs=false"
            )
        if getattr(self, "precision", None) == "fp16":
            raise UserError(
                "cuda_graphs does not work with the scaled losses of fp16; set precision=bf16"
            )
        for name in ("chunk_size", "gradient_checkpointing"):
            if getattr(self, name, None):
                raise UserError(
                    f"{name} computes activations twice, with random numbers that no CUDA graph "
                    f"draws again; leave it out, or set cuda_graphs=false"
                )
        return self

    @property
    def shards_weights(self) -> bool:
        """Whether each of the ranks has only its part of the weights."""
        return self.engine == "fsdp" or (self.engine == "deepspeed" and self.zero == 3)

    def keeps_rounded(self, stage: Stage) -> bool:
        """Whether steps may read rounded weights, of whose float32 values each worker has a share.

        DeepSpeed does so with zero 1 and 2. It adds up gradients as they are, and so rounded, over
        chunks, and with zero 2 and an offloaded optimiser over the batches of a step. What a method
        changes by itself may be made of weights, and not of products.
        """
        adds_rounded = self.zero == 2 and self.offload_optimiser and stage.accumulation > 1
        sharded = self.engine == "deepspeed" and self.zero < 3
        return sharded and self.chunk_size is None and not (adds_rounded or stage.moves)
