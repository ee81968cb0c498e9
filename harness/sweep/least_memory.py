"""The least memory that a trial needs: a configuration that cannot fit is refused beforehand."""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from harness.encoders.loadable import parameter_count, stored_in_bf16
from harness.errors import UserError
from harness.plugin.config import TrainingConfig
from harness.plugin.declared import Declared
from harness.plugin.stage import Stage
from harness.sweep.machines import Machine
from harness.trials.trial import Trial

FLOAT32, BF16 = 4, 2
"""Bytes of a number. Weights and losses are float32, and bf16 is used for products; only a frozen
encoder that is stored in bf16 stays so"""
_GIB = 2**30


@dataclass(frozen=True)
class LeastMemory:
    """What a training step needs at least, in bytes. Not both are there at the same time."""

    weights: int
    """The encoder's weights, and where they train, their gradients and the optimiser's state"""
    batch: int = 0
    """The encoder's weights and the similarities of one batch"""
    items: int = 0
    """Items of the batch"""


@dataclass(frozen=True)
class Room:
    """The most memory that a trial can have."""

    owner: str
    """Who has it, as the beginning of a sentence"""
    size: float
    """Bytes"""


def least_memory(declared: Declared) -> list[LeastMemory]:
    """What each stage of a trial needs at least; the weights alone where nothing trains.

    It is a lower bound, because it counts only what is certainly there at one moment. A method
    loads the models that it declares; a pooler, which no method reads, is not counted.
    When the optimiser does a step, every weight that trains has a gradient and a state of one
    number (LARS) or two (AdamW). When the loss `contrastive` is computed, which compares every item
    of a batch with every other, there are the weights, a float32 matrix of similarities, and the
    logits that are made of it. Activations are not counted: sentences may be short, so a method
    takes several times as much.
    """
    encoder = declared.config.encoder
    weights = _size_of(declared) * parameter_count(encoder) if encoder in declared.models else 0
    return [_of_stage(declared, stage, weights) for stage in declared.stages] or [
        LeastMemory(weights)
    ]


def _size_of(declared: Declared) -> int:
    """Bytes of one weight of the encoder."""
    config = declared.config
    exact = isinstance(config, TrainingConfig) and config.precision == "fp32"
    if exact or any(_trains_encoder(stage) for stage in declared.stages):
        return FLOAT32
    return BF16 if stored_in_bf16(config.encoder) else FLOAT32


def _trains_encoder(stage: Stage) -> bool:
    return any(fnmatchcase("encoder.model", pattern) for pattern in stage.trains)


def _of_stage(declared: Declared, stage: Stage, weights: int) -> LeastMemory:
    states = 1 if stage.optimisation.optimiser == "lars" else 2
    # A corpus may have fewer items than a batch; where its size is not known, none are certain.
    sizes = [min(size, declared.items(name) or 0) for name, size in stage.streams.items()]
    items = min(sizes) if "contrastive" in stage.losses else 0
    return LeastMemory(
        weights=weights * (2 + states) if _trains_encoder(stage) else weights,
        batch=weights + 2 * FLOAT32 * items**2,
        items=items,
    )


def largest_room(machines: Sequence[Machine], *, on_gpu: bool, limit: float | None) -> Room | None:
    """The most memory that any machine has for a trial; None: not known.

    `on_gpu`: whether trials compute on GPUs. `limit`: bytes of host memory that a trial may take.
    """
    if on_gpu:
        gpus = {gpu.memory_mib: gpu.name for machine in machines for gpu in machine.gpus}
        return Room(f"the largest GPU ({gpus[max(gpus)]}) has", max(gpus) * 2**20) if gpus else None
    if limit is not None:
        return Room("--memory-per-trial allows", limit)
    most = max((machine.memory_bytes for machine in machines), default=0)
    return Room("the largest machine has", most) if most else None


def check_fits(trial: Trial, room: Room | None) -> None:
    """Raises UserError for a trial that certainly needs more memory than there is."""
    if room is None:
        return
    has = f"and {room.owner} {room.size / _GIB:.1f} GiB"
    for least in least_memory(trial.declared):
        if least.weights > room.size:
            raise UserError(
                f"{trial.label} cannot run: the weights of its encoder and what their training "
                f"needs take {least.weights / _GIB:.1f} GiB, {has}; choose a smaller encoder"
            )
        if least.batch > room.size:
            raise UserError(
                f"{trial.label} cannot run: the similarities of a batch of {least.items} items "
                f"and the encoder take {least.batch / _GIB:.1f} GiB, {has}; choose a smaller "
                f"batch_size"
            )
