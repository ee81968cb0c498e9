"""The most memory that a trial can have: one that cannot fit is refused beforehand."""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.errors import UserError
from harness.plugin.declared import Declared
from harness.sweeps.cluster.machines import Machine
from harness.sweeps.least_memory import engine_of, least_memory
from harness.trials.trial import Trial

ZERO_STAGES = (1, 2, 3)
_GIB = 2**30


@dataclass(frozen=True)
class Room:
    """The most memory that a worker of a trial can have."""

    owner: str
    """Who has it, as the beginning of a sentence"""
    size: float
    """Bytes"""


def largest_room(machines: Sequence[Machine], *, on_gpu: bool, limit: float | None) -> Room | None:
    """The most memory that any machine has for a worker of a trial; None: not known.

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
    """Raises UserError for a trial that certainly needs more memory than there is.

    The sentence names the first ZeRO stage with which the trial would fit.
    """
    if room is None:
        return
    workers = engine_of(trial.declared).workers
    each = f" in each of its {workers} workers" if workers > 1 else ""
    has = f"and {room.owner} {room.size / _GIB:.1f} GiB"
    for least in least_memory(trial.declared):
        if least.weights > room.size:
            raise UserError(
                f"{trial.label} cannot run: the weights of its encoder and what their training "
                f"needs take {least.weights / _GIB:.1f} GiB{each}, {has}; "
                f"{_remedy(trial.declared, room)}"
            )
        if least.batch > room.size:
            raise UserError(
                f"{trial.label} cannot run: the similarities of a batch of {least.items} items "
                f"and the encoder take {least.batch / _GIB:.1f} GiB{each}, {has}; choose a smaller "
                f"batch_size"
            )


def _remedy(declared: Declared, room: Room) -> str:
    """What would let a trial fit whose weights and their training do not."""
    engine = engine_of(declared)
    if not declared.stages:
        return "choose a smaller encoder"
    if engine.workers == 1:
        return "no ZeRO stage helps a single worker: set workers, or choose a smaller encoder"
    if any(stage.needs_whole_gradients for stage in declared.stages):
        return "it needs whole gradients, so no ZeRO stage can be used: choose a smaller encoder"
    for zero in ZERO_STAGES:
        sharded = engine.model_copy(update={"engine": "deepspeed", "zero": zero})
        most = max(least.weights for least in least_memory(declared, sharded))
        if most <= room.size:
            return f"engine=deepspeed with zero={zero} would need at least {most / _GIB:.1f} GiB"
    return "no ZeRO stage would fit: set more workers, or choose a smaller encoder"
