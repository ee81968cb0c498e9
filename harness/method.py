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

if TYPE_CHECKING:
    import numpy as np

    from harness.data.batching import TextBatch
    from harness.data.tokens import Template
    from harness.kit import Kit

Setting = Literal["unsup", "semisup", "sup"]


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


@dataclass(frozen=True)
class Stage:
    """One training phase: what trains, on what, towards what."""

    name: str
    trains: Mapping[str, str]
    """Parameter-name pattern (fnmatch) -> configuration field with its learning rate; the first match counts and a
    parameter that nothing matches is frozen."""
    streams: Mapping[str, int]
    """Stream name -> items per batch. The first stream sets the length of an epoch; the others start again when
    they are used up."""
    losses: Mapping[str, float | Callable[[int], float]]
    """Loss name -> weight, or a function from the number of updates done to the weight."""
    epochs: float = 1
    max_steps: int | None = None


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

    def __init__(self, config: Any, kit: Kit) -> None:
        """Build the modules from the kit. `template` says what stands around each sentence, here [CLS] and [SEP]."""
        super().__init__()
        self.config = config
        self.template: Template = kit.template

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        """Stream name -> batch, to loss name -> scalar. Needed when there are stages."""
        raise NotImplementedError(f"{type(self).__module__} has stages but no losses()")

    @property
    def longest(self) -> int:
        """Most tokens of a test sentence, template included; a method that shifts positions has fewer."""
        encoder: Any = self.encoder
        return int(encoder.longest)

    @abstractmethod
    def embed(self, batch: TextBatch) -> Tensor:
        """Sentence embeddings at test time, (rows, hidden)."""
        raise NotImplementedError


@dataclass(frozen=True)
class Plugin:
    """A method that was found: its name, its class, and the digest of its source."""

    name: str
    method: type[Method]
    source_digest: str
