"""The least memory that each worker of a trial needs, known before it runs, and whether it fits."""

import functools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import ceil
from pathlib import Path

from harness.data.hub import model_folder
from harness.data.revisions import repository_of
from harness.data.weight_contents import parameter_count, stored_in_bf16
from harness.errors import NotHere, UserError
from harness.plugin.config import TrainingConfig
from harness.plugin.declared import Declared
from harness.plugin.engine_config import EngineConfig
from harness.plugin.operations import passes_of
from harness.plugin.passes import Pass
from harness.plugin.stage import Stage
from harness.sweeps.machines import Machine
from harness.trials.trial import Trial

ZERO_STAGES = (1, 2, 3)
_GIB = 2**30
FLOAT32, BF16 = 4, 2
"""Bytes of a number. Weights and losses are float32, and bf16 is used for products; only a frozen
encoder that is stored in bf16 stays so"""
PUBLISHED_WEIGHTS = {
    "bert-base-uncased": (108_891_648, FLOAT32),
    "bert-large-uncased": (334_092_288, FLOAT32),
    "roberta-base": (124_055_040, FLOAT32),
    "roberta-large": (354_310_144, FLOAT32),
    "mistralai/Mistral-7B-v0.1": (7_110_660_096, BF16),
    "huggyllama/llama-7b": (6_607_343_616, FLOAT32),
    "Qwen/Qwen2.5-0.5B": (494_032_768, BF16),
}
"""Encoder of a shipped space -> its weights without a pooler (dcpcse.md, section 1.3), and bytes
of one of them as it is stored, for plans on machines that do not have it"""


@dataclass(frozen=True)
class LeastMemory:
    """Least bytes of each worker of a trial in a step: the larger of the two."""

    weights: int
    """The weights of the models, and of those that train, gradients and the optimiser's state"""
    batch: int = 0
    """The weights of the models and the similarities of one batch"""
    items: int = 0
    """Items of the batch"""
    offloaded: int = 0
    """Bytes that the worker keeps in the memory of its machine in the place of its GPU's"""

    @property
    def most(self) -> int:
        """The larger of the two."""
        return max(self.weights, self.batch)


def least_memory(declared: Declared, engine: EngineConfig | None = None) -> list[LeastMemory]:
    """The least memory of each stage of a trial; the weights alone where nothing trains.

    engine: what computes the steps; None: what the configuration says. Raises NotHere when the
    encoder is not on this machine and its size is not known.

    It is a lower bound, because it counts only what is certainly there at one moment. A method
    loads its encoder and the other models through which it passes batches (harness.plugin.passes),
    each of which counts where its size is known; a pooler, which no method reads, does not.
    When the optimiser does a step, every weight that trains has a gradient and a state of one
    number (LARS) or two (AdamW). When the loss `contrastive` is computed, which compares every item
    of a batch with every other, there are the weights, a float32 matrix of similarities, and the
    logits that are made of it; every worker has those of the whole batch. Activations are not
    counted: sentences may be short, so a method takes several times as much. Rounded copies of
    frozen weights (harness.encoders.rounded) are not counted either. Sharded weights that travel as
    bf16 (harness.training.engines.sent_as) are float32 where they arrive.

    Of W bytes of weights, G of gradients, S of state and C of the copy of the weights that train
    (zero 1 and 2 step on their shares of a copy; unless the precision is fp32, all but norms and
    embeddings is rounded beside it, and W then counts two bytes for each weight that trains), each
    of N workers has

        single, ddp          W   + G   + S
        deepspeed, zero 1    W   + G   + (S + C)/N
        deepspeed, zero 2    W   + (G + S + C)/N
        deepspeed, zero 3    (W + G + S)/N
        fsdp                 (W + G + S)/N

    (Rajbhandari et al. 2020, arXiv 1910.02054, sections 3.1 and 5, here with float32 weights); all
    but W are 0 where the encoder is frozen. What is offloaded counts as `offloaded`: with
    `offload_optimiser` (G + S + C)/N and, with zero 1 and 2, another C/N for what comes back (C/2N
    if it is rounded); with `offload_parameters` W/N. The layer that zero 3 and fsdp make whole
    while it runs is not counted; of encoders that are no decoders, fsdp makes all weights whole in
    a step.
    """
    if engine is None:
        engine = engine_of(declared)
    encoder = declared.config.encoder
    weights = _encoder_bytes(declared) if encoder in declared.models else 0
    return [_of_stage(declared, stage, weights, engine) for stage in declared.stages] or [
        LeastMemory(weights)
    ]


def most_memory(several: Iterable[Declared]) -> int | None:
    """Least bytes of a worker of the largest of several trials.

    None: an encoder is not here or cannot be read, and its size is not known.
    """
    try:
        return max(least.most for declared in several for least in least_memory(declared))
    except UserError:  # a plan names what is missing, and a sweep says what is damaged
        return None


def engine_of(declared: Declared) -> EngineConfig:
    """The engine of a trial; a method that trains nothing has one process."""
    config = declared.config
    return config if isinstance(config, EngineConfig) else EngineConfig()


def _encoder_bytes(declared: Declared) -> int:
    """The size of the encoder's weights as the method has them."""
    config = declared.config
    count, stored = _stored(config.encoder)
    exact = isinstance(config, TrainingConfig) and config.precision == "fp32"
    widened = exact or any(_trains_encoder(declared, stage) for stage in declared.stages)
    return count * (FLOAT32 if widened else stored)


def _stored(encoder: str) -> tuple[int, int]:
    """The number of weights of an encoder, and bytes of one of them in its files.

    Raises UserError when the files are damaged, and NotHere as `least_memory`.
    """
    try:
        return _stored_in(model_folder(encoder, download=False), encoder)
    except NotHere:
        model = repository_of(encoder)
        if model in PUBLISHED_WEIGHTS:
            return PUBLISHED_WEIGHTS[model]
        raise


# Kept, since a plan asks for every trial.
@functools.cache
def _stored_in(_folder: Path, encoder: str) -> tuple[int, int]:
    return parameter_count(encoder), BF16 if stored_in_bf16(encoder) else FLOAT32


def _trains_encoder(declared: Declared, stage: Stage) -> bool:
    config = declared.config
    if isinstance(config, TrainingConfig) and config.lora_rank is not None:
        return False
    return any(fnmatchcase("encoder.model", pattern) for pattern in stage.trains)


def _further(declared: Declared, stage: Stage) -> Iterator[tuple[int, bool]]:
    """Bytes of every further model through which the stage passes batches, and whether it trains.

    A model whose size is not known is left out.
    """
    with suppress(NotHere, KeyError):
        passes = passes_of(declared)
        work = [part for part in passes.step(stage) if isinstance(part, Pass) and part.model]
        for module, name in {part.module: part.model for part in work}.items():
            with suppress(NotHere):
                count, stored = _stored(name)
                trains = passes.trains(stage, module)
                yield count * (FLOAT32 if trains else stored), trains


def _of_stage(declared: Declared, stage: Stage, weights: int, engine: EngineConfig) -> LeastMemory:
    trained = weights if _trains_encoder(declared, stage) else 0
    for size, trains in _further(declared, stage):
        weights, trained = weights + size, trained + size * trains
    states = 1 if stage.optimisation.optimiser == "lars" else 2
    rounds = _rounds(declared, stage, engine)
    # The shares that a worker keeps on its own device, as the table above says.
    kept, gradients, kept_states, copies, offloaded = 1.0, 1.0, 1.0, 0, 0.0
    shard = 1 / engine.workers
    if engine.engine == "fsdp":
        kept = gradients = kept_states = shard
    if engine.engine == "deepspeed":
        kept_states = 0 if engine.offload_optimiser else shard
        gradients = 1 if engine.zero == 1 else kept_states
        copies = 0 if engine.zero == 3 else 1
        if engine.zero == 3:
            kept = 0 if engine.offload_parameters else shard
        if engine.offload_optimiser:
            returned = copies / 2 if rounds else copies
            offloaded += trained * (1 + states + 1 + returned) * shard
        if engine.offload_parameters:
            offloaded += weights * shard
    # A corpus may have fewer items than a batch; where its size is not known, none are certain.
    sizes = [min(size, declared.items(name) or 0) for name, size in stage.streams.items()]
    items = min(sizes) if "contrastive" in stage.losses else 0
    held = kept * (weights - trained / 2 if rounds else weights)
    return LeastMemory(
        weights=ceil(held + trained * (gradients + (states + copies) * kept_states)),
        batch=ceil(held) + 2 * FLOAT32 * items**2,
        items=items,
        offloaded=ceil(offloaded),
    )


def _rounds(declared: Declared, stage: Stage, engine: EngineConfig) -> bool:
    """Whether steps may read weights of two bytes where float32 ones train."""
    config = declared.config
    rounds = isinstance(config, TrainingConfig) and config.precision != "fp32"
    return rounds and engine.keeps_rounded(stage)


@dataclass(frozen=True)
class Room:
    """The most memory that a worker of a trial can have."""

    owner: str
    """Who has it, as the beginning of a sentence"""
    size: float
    """Bytes"""
    host: float | None = None
    """Bytes of host memory of all machines, beside a GPU; 0: not known. None: a machine itself"""


def largest_room(machines: Sequence[Machine], *, on_gpu: bool, limit: float | None) -> Room | None:
    """The most memory that any machine has for a worker of a trial; None: not known.

    `on_gpu`: whether trials compute on GPUs. `limit`: bytes of host memory that a trial may take.
    """
    if on_gpu:
        gpus = {gpu.memory_mib: gpu.name for machine in machines for gpu in machine.gpus}
        hosts = [machine.memory_bytes for machine in machines]
        host = sum(hosts) if all(hosts) else 0
        largest = max(gpus, default=0)
        owner = f"the largest GPU ({gpus.get(largest)}) has"
        return Room(owner, largest * 2**20, host) if gpus else None
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
    engine = engine_of(trial.declared)
    workers = engine.workers
    if room.host is None:  # there is nowhere else to offload to
        engine = engine.model_copy(update={"offload_optimiser": False, "offload_parameters": False})
    in_each = f" in each of its {workers} workers" if workers > 1 else ""
    has = f"and {room.owner} {room.size / _GIB:.1f} GiB"
    for least in least_memory(trial.declared, engine):
        if room.host and workers * least.offloaded > room.host:
            raise UserError(
                f"{trial.label} cannot run: what its workers offload takes "
                f"{workers * least.offloaded / _GIB:.1f} GiB of host memory, and the machines have "
                f"{room.host / _GIB:.1f} GiB; offload less, or choose a smaller encoder"
            )
        if least.weights > room.size:
            raise UserError(
                f"{trial.label} cannot run: the weights of its models and what their training "
                f"needs take {least.weights / _GIB:.1f} GiB{in_each}, {has}; "
                f"{_remedy(trial.declared, room)}"
            )
        if least.batch > room.size:
            raise UserError(
                f"{trial.label} cannot run: the similarities of a batch of {least.items} items "
                f"and the models take {least.batch / _GIB:.1f} GiB{in_each}, {has}; choose a "
                f"smaller batch_size"
            )


def _remedy(declared: Declared, room: Room) -> str:
    """Advice for a trial whose weights and their training do not fit."""
    engine = engine_of(declared)
    if not declared.stages:
        return "choose a smaller encoder"
    if engine.workers == 1:
        return "no ZeRO stage helps a single worker: set workers, or choose a smaller encoder"
    if any(stage.needs_whole_gradients for stage in declared.stages):
        return "it needs whole gradients, so no ZeRO stage can be used: choose a smaller encoder"
    changes = any(stage.moves for stage in declared.stages)  # which zero 3 must not shard
    for zero in ZERO_STAGES[:2] if changes else ZERO_STAGES:
        sharded = engine.model_copy(update={"engine": "deepspeed", "zero": zero})
        most = max(least.weights for least in least_memory(declared, sharded))
        if most <= room.size:
            return f"engine=deepspeed with zero={zero} would need at least {most / _GIB:.1f} GiB"
    return "no ZeRO stage would fit: set more workers, or choose a smaller encoder"
