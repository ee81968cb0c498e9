"""A stage: one training phase, as a method declares it."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import ConfigDict, Field, PositiveFloat, PositiveInt

from harness.data.items import batches_in_epoch

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Artefact:
    """Something costly that trials share, such as a frozen encoder's embeddings.

    It is built once for each combination of its fields, kept on disk and memory-mapped.

    Example:
        Artefact("vectors", ("corpus", "max_length"), lambda kit: {"vectors": embed(kit)})
    """

    name: str
    fields: tuple[str, ...]
    """The configuration fields on which it depends; trials that agree in them share it"""
    build: "Callable[[Any], Mapping[str, np.ndarray]]"
    """Kit -> named arrays"""
    embeds: bool = True
    """Whether `embed` needs it; what only training needs stays behind when a model is exported"""
    models: tuple[str, ...] | None = None
    """The models of which it is made, so that trials of any encoder share it, such as the vectors
    of a frozen teacher; None: all models of the method"""


OptimiserName = Literal["adamw", "adamw-uncorrected", "adamw-released", "lars", "rmsprop"]
"""harness.training.optimisers says what each of them is"""
ScheduleName = Literal["linear", "cosine", "constant", "stepped"]
"""Course of the learning rate after the warm-up"""
LossWeight = float | Callable[[int], float]
"""The weight of a loss, or a function from the number of steps done in the stage to the weight"""


@dataclass(frozen=True)
class Batches:
    """Batches into which a stage's streams are cut."""

    full: bool = False
    """Whether the short last batch of an epoch is dropped"""
    text: bool = True
    """Whether batches hold word pieces. Otherwise they hold the numbers of the items alone, for a
    method that looks up vectors made beforehand"""


@dataclass(frozen=True)
class Optimisation:
    """Rule by which a stage turns gradients into new parameters."""

    optimiser: OptimiserName = "adamw"
    schedule: ScheduleName = "linear"
    decay_steps: PositiveInt | None = None
    """The step at which the learning rate is 0; None: the last step of the stage"""
    clipping: Literal["trainable", "released"] = "trainable"
    """`released` is DiffAug's accidental rule (harness.training.optimisers.clip_released)"""
    decays: Literal["matrices", "all"] = "matrices"
    """Reach of weight decay: matrices, and not biases and norms, or every parameter"""


@dataclass(frozen=True)
class Selection:
    """Choice of the weights of a stage that count."""

    keep: Literal["best", "last"] = "best"
    """Weights of the best evaluation on dev, or those of the last evaluation"""
    evaluation_interval: PositiveInt | None = None
    """Steps between two evaluations; None: the configuration's `evaluation_interval`"""
    epoch_ends: bool = False
    """Whether dev is scored at the end of every epoch, too, where the steps to the next evaluation
    are counted anew"""
    own_run: bool = False
    """Whether the stage is a training run of its own: the next stage starts from its best
    checkpoint, and the choice of the final checkpoint starts anew"""
    patience: PositiveInt | None = None
    """The stage ends after so many evaluations in a row without a gain; None: at its last step.
    A stage that trials share, or that keeps its last weights, has none"""


@dataclass(frozen=True)
class Stage:
    """One training phase: what trains, on what data, towards which losses, how long, and how.

    One update of the optimiser is a step. Most methods build their stages with
    `TrainingConfig.stage`.

    Example:
        Stage(
            "joint",
            trains={"encoder.*": "learning_rate", "classifier.*": "classifier_rate"},
            streams={"contrastive": 64, "labelled": 32},
            losses={"contrastive": 1.0, "classification": 0.1},
        )
    """

    # harness.plugin.declared checks the kinds of the fields.
    __pydantic_config__ = ConfigDict(
        strict=True, allow_inf_nan=False, revalidate_instances="always", defer_build=True
    )

    name: str
    trains: Mapping[str, str]
    """Pattern of parameter names (fnmatch) -> configuration field with their learning rate.

    The first pattern that matches a name counts. A parameter that no pattern matches is frozen."""
    streams: Annotated[Mapping[str, PositiveInt], Field(min_length=1)]
    """Stream -> items in a batch. The first stream sets the length of an epoch; the others start
    again when they are used up."""
    losses: Mapping[str, LossWeight]
    """Loss -> weight"""
    epochs: PositiveFloat | None = 1
    """Passes over the first stream; None: only `max_steps` sets the length"""
    max_steps: PositiveInt | None = None
    """Most steps of the stage; None: no limit"""
    accumulation: PositiveInt = 1
    """Batches in a step. Negatives are those of one batch. Above 1, the batches of an epoch that
    do not fill a step are dropped."""
    moves: Sequence[str] = ()
    """Patterns of parameters that do not train and that the method itself changes, such as a
    moving average of other parameters"""
    capturable: bool = False
    """Whether a CUDA graph may repeat a step (`cuda_graphs`). Then `losses` does the same for all
    batches of one shape: it reads tensors of the batch alone and not its `epoch`; nothing in Python
    differs from step to step; the CPU gives no numbers to the GPU and waits for none of it; and the
    loss is the same with more padding."""
    batches: Batches = Batches()
    optimisation: Optimisation = Optimisation()
    selection: Selection = Selection()
    shared: Sequence[str] | None = None
    """Trials that agree in these configuration fields (and in seed, encoder, data and method) pass
    through the same states of this stage, so one trial runs it for all of them. None: not shared"""

    @property
    def group(self) -> int:
        """An epoch has a multiple of this many full batches; 0: a short last batch is kept."""
        return self.accumulation if self.accumulation > 1 or self.batches.full else 0

    @property
    def needs_whole_gradients(self) -> str | None:
        """Part that cannot work where gradients are sharded (deepspeed); None: everything can."""
        if self.optimisation.optimiser == "lars":
            return "lars"
        return "released clipping" if self.optimisation.clipping == "released" else None

    @property
    def prevents_capture(self) -> str | None:
        """The reason why no CUDA graph can repeat a step; None: there is none."""
        if not self.capturable:
            return "steps that differ in more than numbers, or wait for the GPU"
        if self.optimisation.optimiser != "adamw":
            return f"the optimiser {self.optimisation.optimiser}, which is no AdamW of torch"
        if any(callable(weight) for weight in self.losses.values()):
            return "the weight of a loss that changes with the steps"
        return None

    def steps(self, items: int) -> int:
        """Steps of the stage when its first stream has this many items.

        With `Selection.patience` it may end before.
        """
        # The plan and the training loop both ask here, so they cannot differ.
        if self.epochs is None:
            assert self.max_steps is not None, f'stage "{self.name}" has no end'
            return self.max_steps
        steps = math.ceil(self.steps_in_epoch(items) * self.epochs)
        return steps if self.max_steps is None else min(steps, self.max_steps)

    def steps_in_epoch(self, items: int) -> int:
        """Steps of one pass over the first stream when it has this many items."""
        batch_size = next(iter(self.streams.values()))
        return batches_in_epoch(items, batch_size, self.group) // self.accumulation
