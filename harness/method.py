"""The contract of a method: what a plugin declares, builds and computes. The harness does everything else.

A plugin is a folder (or file) with a class `Method`. Everything that can be declared is declared on the class, so
that a sweep can be planned without a GPU or a model; `losses` and `embed` are the only computations it must write.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import Tensor, nn

from harness.data.tokens import Template

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

    from harness.data.batching import TextBatch
    from harness.kit import Kit

Setting = Literal["unsup", "semisup", "sup"]
OptimiserName = Literal["adamw", "adamw-uncorrected", "adamw-released", "lars"]
ScheduleName = Literal["linear", "cosine", "constant"]


class MethodConfig(BaseModel):
    """What every method can be told. Frozen; unknown keys are refused; `3e-5` written as text is a number."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, validate_default=True)

    published: ClassVar[Mapping[tuple[str, str], Mapping[str, Any]]] = {}
    """Paper values that differ from the field defaults: (setting, encoder) -> {field: value}; "*" is any encoder."""

    encoder: str = Field("bert-base-uncased", description="model name, as on the Hugging Face Hub, or a folder")
    setting: Setting = "unsup"
    suite: str = Field("sts", description="what is measured: a suite of harness.evaluation")

    @model_validator(mode="before")
    @classmethod
    def _fill_published(cls, given: Any) -> Any:
        """Where nothing is given, the paper's value for this setting and encoder comes before the field default."""
        if not isinstance(given, Mapping):
            return given
        fields = cls.model_fields
        setting = given.get("setting", fields["setting"].default)
        encoder = given.get("encoder", fields["encoder"].default)
        published = cls.published.get((setting, "*"), {}) | cls.published.get((setting, encoder), {})  # type: ignore[operator]
        return {**published, **given}


class TrainingConfig(MethodConfig):
    """What every method that trains can be told; the defaults are those of the SimCSE family (baselines.md, 0)."""

    learning_rate: float = Field(3e-5, gt=0, description="peak rate of the linear decay")
    batch_size: int = Field(64, ge=2, description="contrastive batch, in sentences or triplets")
    epochs: float = Field(1, gt=0)
    max_steps: int | None = Field(None, ge=1, description="stop (and decay to zero) after so many updates")
    max_length: int = Field(32, ge=4, le=512, description="tokens of a training sentence, special tokens included")
    temperature: float = Field(0.05, gt=0)
    warmup_ratio: float = Field(0.0, ge=0, le=1)
    weight_decay: float = Field(0.0, ge=0)
    gradient_clipping: float = Field(1.0, gt=0, description="largest norm of the gradient")
    precision: Literal["auto", "bf16", "fp32"] = Field("auto", description="auto: bf16 where the hardware has it")
    evaluation_interval: int = Field(125, ge=1, description="updates between two evaluations on dev")
    sentences: str = Field("wiki1m", description="unlabelled corpus")
    triplets: str = Field("nli-triplets", description="corpus of premise, entailment, contradiction")
    gradient_checkpointing: bool = Field(False, description="less memory, more time: activations are computed twice")
    label_fraction: float = Field(1.0, gt=0, le=1, description="share of the labelled data that is used")
    subset: int = Field(0, ge=0, description="which random subset of the labels, where only a share is used")


@dataclass(frozen=True)
class Stage:
    """One training phase: what trains, on what, towards what, and how."""

    name: str
    trains: Mapping[str, str]
    """Parameter-name pattern (fnmatch) -> configuration field with its learning rate; the first match counts and a
    parameter that nothing matches is frozen."""
    streams: Mapping[str, int]
    """Stream name -> items per batch. The first stream sets the length of an epoch; the others start again when
    they are used up."""
    losses: Mapping[str, float | Callable[[int], float]]
    """Loss name -> weight, or a function from the number of updates done in this stage to the weight."""
    epochs: float | None = 1
    """Over the first stream; None: as long as `max_steps` says"""
    max_steps: int | None = None
    accumulation: int = 1
    """Batches per update; negatives are those of one batch. Above 1 an epoch's left-over batches are dropped."""
    full_batches: bool = False
    """Drop the short last batch of an epoch"""
    text: bool = True
    """Whether batches hold word pieces; without, only the items' numbers (for vectors made beforehand)"""
    moves: tuple[str, ...] = ()
    """Patterns of parameters that the method itself changes (a momentum average)"""
    optimiser: OptimiserName = "adamw"
    schedule: ScheduleName = "linear"
    decay_steps: int | None = None
    """The update at which the rate is 0; default: the stage's last"""
    clipping: Literal["trainable", "released"] = "trainable"
    """`released`: DiffAug's rule (harness.training.clipping)"""
    evaluation_interval: int | None = None
    """Instead of the configuration's"""
    keep: Literal["best", "last"] = "best"
    """Which weights count: those of the best evaluation on dev, or those of the last"""
    own_run: bool = False
    """A training run of its own: its best checkpoint on dev is what the next stage starts from, and the choice of the
    final checkpoint starts anew after it"""
    shared: tuple[str, ...] | None = None
    """Trials that agree in these configuration fields (and seed, encoder, data, method) pass through the same states
    of this stage, so that one runs it for all (harness.training.snapshots); None: not shared"""


@dataclass(frozen=True)
class Artefact:
    """Something costly that trials share (a frozen encoder's embeddings, say): built once per sweep, then loaded."""

    name: str
    fields: tuple[str, ...]
    """The configuration fields that it depends on; trials that agree in them share it."""
    build: Callable[[Any, Kit], Mapping[str, np.ndarray]]
    """(configuration, kit) -> named arrays."""


class Method(nn.Module):
    """A way to train and use a sentence encoder. Subclass it as `Method` in the plugin."""

    config_type: ClassVar[type[MethodConfig]] = MethodConfig

    @classmethod
    def data(cls, config: Any) -> dict[str, str]:
        """Stream name -> corpus name (`wiki1m`, `nli-triplets`, ... or a file)."""
        return {}

    @classmethod
    def models(cls, config: Any) -> list[str]:
        """The pretrained models that the method loads; their digests are part of a trial's key."""
        return [config.encoder]

    @classmethod
    def stages(cls, config: Any) -> list[Stage]:
        """The training phases in order; none for an evaluation-only method."""
        return []

    @classmethod
    def artefacts(cls, config: Any) -> list[Artefact]:
        """What trials share; `kit.artefact(name)` gives it back."""
        return []

    @classmethod
    def files(cls, config: Any) -> list[Path]:
        """Other files that the result depends on (word vectors, a thesaurus); part of a trial's key."""
        return []

    def __init__(self, config: Any, kit: Kit) -> None:
        """Build the modules from the kit. `template` says what stands around each sentence, here [CLS] and [SEP]."""
        super().__init__()
        self.config = config
        self.tokenizer: Any = self.load_tokenizer(kit)
        self.template = Template.plain(self.tokenizer)

    def load_tokenizer(self, kit: Kit) -> Any:
        """The encoder's; a method without an encoder makes its own."""
        return kit.tokenizer

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        """Stream name -> batch, to loss name -> scalar. Needed when there are stages."""
        raise NotImplementedError(f"{type(self).__module__} has stages but no losses()")

    def watched(self, stage: Stage) -> dict[str, float]:
        """Name -> value, for what a method wants to follow along a stage; the names `loss` and `dev` are taken.

        Called before the stage's first update and after every evaluation on dev, in evaluation mode, without gradients
        and in float32; training goes on as if it had not been called. The values are part of the record's `history`.
        """
        return {}

    @property
    def longest(self) -> int:
        """Most tokens of a test sentence, template included; a method that shifts positions has fewer."""
        encoder: Any = self.encoder
        return int(encoder.longest)

    @property
    def training_pieces(self) -> int:
        """Most word pieces of a training sentence, template not counted; more are cut on the right."""
        return max(1, int(self.config.max_length) - len(self.template))

    @property
    def evaluation_template(self) -> Template:
        """What stands around a sentence that is evaluated; differs where a released code is inconsistent."""
        return self.template

    @abstractmethod
    def embed(self, batch: TextBatch) -> Tensor:
        """Sentence embeddings at test time, (rows, hidden)."""
        raise NotImplementedError

    def embed_dev(self, batch: TextBatch) -> Tensor:
        """The embeddings that select a checkpoint on dev, where a paper's differ from those it tests."""
        return self.embed(batch)

    def test_text(self, text: str) -> str:
        """A test sentence as the method reads it; dev and training sentences are read as they are."""
        return text


class FrozenMethod(Method):
    """A method on top of an encoder that never changes: its vectors are computed once per sentence and trial."""

    @abstractmethod
    def base(self, batch: TextBatch) -> Tensor:
        """The frozen encoder's sentence vectors, (rows, width)."""
        raise NotImplementedError

    @abstractmethod
    def transform(self, vectors: Tensor) -> Tensor:
        """(rows, width) -> (rows, hidden): what the method makes of them."""
        raise NotImplementedError

    def embed(self, batch: TextBatch) -> Tensor:
        """`transform` of `base`."""
        return self.transform(self.base(batch))


@dataclass(frozen=True)
class Plugin:
    """A method that was found: its name, its class, and the digest of its source."""

    name: str
    method: type[Method]
    source_digest: str
