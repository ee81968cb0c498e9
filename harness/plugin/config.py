"""The hyperparameters of a method: the base classes of every configuration."""

from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, TypedDict, Unpack

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    field_validator,
    model_validator,
)
from pydantic_core.core_schema import ValidatorFunctionWrapHandler

from harness.choices import Batching, DecoderAttention, DecoderPooling, Decoding, LowRank
from harness.data.hub import model_shape
from harness.data.revisions import repository_of
from harness.data.shapes import Accepts
from harness.errors import UserError
from harness.inputs import checked_number
from harness.plugin.engine_config import EngineConfig
from harness.plugin.stage import Batches, LossWeight, Optimisation, Selection, Stage
from harness.relocation import travelled

DECODER_FIELDS = ("decoder_pooling", "decoder_attention")


class DecoderConfig(BaseModel):
    """The fields of every method about how a decoder reads a sentence."""

    decoder_pooling: DecoderPooling = Field(
        "last-token",
        description="what stands for a sentence where a bidirectional encoder has [CLS]: the state "
        "of the last token, the mean, or the mean in which token k counts k times",
    )
    decoder_attention: DecoderAttention = Field(
        "causal", description="of a decoder: as it was pretrained, or every token sees every token"
    )

    @property
    def decoding(self) -> Decoding:
        """Both fields."""
        return Decoding(self.decoder_pooling, self.decoder_attention)

    @property
    def decodes(self) -> bool:
        """Whether a field has another value than by default."""
        return self.decoding != Decoding()

    @property
    def ends_sentences(self) -> bool:
        """Whether a decoder reads a token behind each sentence, whose state can stand for it."""
        return self.decoder_pooling == "last-token"


def may_decode(encoder: str) -> bool:
    """Whether an encoder is a decoder; also where it is not on this machine, which cannot know."""
    try:
        shape = model_shape(encoder, download=False)
    except UserError:
        return True
    # Most files name the head with which the model was trained, which tells it without torch.
    listed = shape.get("architectures")
    heads = [str(name) for name in listed] if isinstance(listed, list) else []
    if any(name.endswith("ForMaskedLM") for name in heads) and not shape.get("is_decoder"):
        return False
    if heads and all(name.endswith("ForCausalLM") for name in heads):
        return True
    from harness.encoders.families import is_decoder

    return is_decoder(shape)


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


Setting = Literal["unsup", "semisup", "sup"]
"""Share of the training data that has labels: nothing, a part, or everything"""
Precision = Literal["auto", "bf16", "fp16", "fp32"]
"""Numbers in which products are computed while a method trains; weights and losses are float32"""


class MethodConfig(DecoderConfig):
    """The fields of every method.

    A configuration is frozen, it refuses unknown keys, and it reads the text `3e-5` as a number.
    A field without a value takes, in this order: its `dependent_defaults`, its value in
    `published`, its default. A field that is `unused` takes the same, whatever value it is given.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        validate_default=True,
        defer_build=True,  # a wrong name is answered without a validator
    )

    published: ClassVar[Mapping[tuple[str, str], Mapping[str, object]]] = {}
    """Values of the paper that differ from the field defaults.

    (setting, encoder) -> {field: value}. The encoder "*" means any encoder; the values of the
    encoder itself come before those of "*". They hold for all revisions of an encoder.
    """

    released: ClassVar[frozenset[str]] = frozenset()
    """Names of the fields that choose between the paper and what its released code does without the
    paper's saying so, be it by accident. `harness show` and the method's page list them apart."""

    encoder: str = Field(
        "bert-base-uncased",
        description="name of a model on the Hugging Face Hub, also NAME@REVISION, or a folder",
    )
    setting: Setting = "unsup"
    selected_by: str | None = Field(
        None,
        description="dev score of another shipped suite, such as transfer-senteval-dev, by which "
        "configurations are compared; checkpoints are chosen by that of `suite`; null: both are",
    )
    suite: str = Field("sts", description="the evaluation suite that measures the method")
    # Once a choice of its own. Every key has it, so it stays, and follows from the suite.
    transfer_classifier: Literal["minimum", "senteval"] = Field(
        "minimum", description="follows from the suite: senteval for transfer-senteval"
    )

    @classmethod
    def dependent_defaults(cls, given: Mapping[str, object]) -> Mapping[str, object]:
        """Field -> default, for defaults that follow from the values of other fields.

        given: the values that were named, not validated yet, so that a number may be a text.

        Example:
            return {"accumulation": 1} if given.get("setting") == "sup" else {}
        """
        return {}

    @property
    def unused(self) -> Collection[str]:
        """Fields that change nothing under the values of the other fields.

        They fall back to their defaults, so that configurations which train the same thing are
        equal and have one key.

        Example:
            return {"rank"} if self.augmentation == "prefix" else {"prompt_length"}
        """
        return ()

    def unused_fields(self) -> set[str]:
        """The fields that change nothing: `unused`, and those of decoders and of low rank."""
        unused = {*self.unused}
        if self.decodes and not may_decode(self.encoder):
            unused.update(DECODER_FIELDS)
        if isinstance(self, LowRankConfig) and self.lora_rank is None:
            unused.add("lora_alpha")
        return unused

    def deciding(self) -> dict[str, Any]:
        """Field -> value as JSON holds it, without fields that change no result."""
        values = self.model_dump(mode="json", exclude={*EngineConfig.model_fields})
        if self.selected_by is None:  # trials from before this field keep their keys
            del values["selected_by"]
        return values

    def computed_by(self) -> dict[str, Any]:
        """The fields that `deciding` leaves out, with their values."""
        return self.model_dump(mode="json", include={*EngineConfig.model_fields})

    @model_validator(mode="wrap")
    @classmethod
    def _forget_unused(cls, values: Any, parse: ModelWrapValidatorHandler[Self]) -> Self:
        """Read the values again without those that change nothing, after they were checked."""
        config = parse(values)
        unused = config.unused_fields()
        if not isinstance(values, Mapping) or values.keys().isdisjoint(unused):
            return config
        return parse({name: values[name] for name in values if name not in unused})

    @model_validator(mode="before")
    @classmethod
    def _fill_defaults(cls, named: Any) -> Any:
        """Put the values of the paper in the place of field defaults."""
        if not isinstance(named, Mapping):
            return named
        # Not validated yet, so the defaults of the two fields stand in where they are missing.
        fields = cls.model_fields
        setting = named.get("setting", fields["setting"].default)
        encoder = named.get("encoder", fields["encoder"].default)
        if not (isinstance(setting, str) and isinstance(encoder, str)):
            return named  # validation says what is wrong with them
        for_all = cls.published.get((setting, "*"), {})
        for_encoder = cls.published.get((setting, repository_of(encoder)), {})
        # The later wins: what is given is never replaced.
        values = {**for_all, **for_encoder, **cls.dependent_defaults(named), **named}
        classifier = "senteval" if values.get("suite") == "transfer-senteval" else "minimum"
        if values.setdefault("transfer_classifier", classifier) != classifier:
            raise UserError(
                f"transfer_classifier follows from the suite, and is {classifier} here; leave it "
                f"out, and write suite=transfer-senteval to measure the transfer tasks"
            )
        return values

    @field_validator("*", mode="wrap")
    @classmethod
    def _as_meant(cls, value: Any, parse: ValidatorFunctionWrapHandler) -> Any:
        """Refuse `true` for a number, and whole numbers that no tensor can hold.

        In a worker of a cluster, a path opens the file that has travelled there.
        """
        return travelled(checked_number(value, parse(value)))


class StageOptions(TypedDict, total=False):
    """Fields of a stage that `TrainingConfig.stage` passes on."""

    accumulation: int
    moves: tuple[str, ...]
    capturable: bool
    batches: Batches
    optimisation: Optimisation
    selection: Selection
    shared: tuple[str, ...] | None


class TrainingConfig(MethodConfig, EngineConfig, LowRankConfig):
    """The fields of every method that trains.

    The defaults are those of the SimCSE family (simcse.md, section 1). `subset` is not a
    hyperparameter: it numbers a repetition, as a seed does.
    """

    # Contrastive learning and its optimiser (simcse.md, sections 1.2, 1.3 and 1.7)
    learning_rate: float = Field(3e-5, gt=0, description="peak rate of the linear decay")
    batch_size: int = Field(64, ge=2, description="contrastive batch, in sentences or triplets")
    batching: Batching = Field(
        "shuffled",
        description="items that meet in a batch: any (shuffled), or those of about one length "
        "(grouped), which saves padding",
    )
    epochs: float = Field(1, gt=0, le=1_000_000, description="passes over the training data")
    max_steps: int | None = Field(
        None, ge=1, description="stop (and decay to zero) after this many steps"
    )
    max_length: int = Field(
        32, ge=4, le=512, description="tokens of a training sentence, special tokens included"
    )
    temperature: float = Field(0.05, gt=0, description="what the contrastive loss divides by")
    warmup_ratio: float = Field(0.0, ge=0, le=1, description="share of the steps that warm up")
    weight_decay: float = Field(0.0, ge=0)
    gradient_clipping: float = Field(1.0, gt=0, description="largest norm of the gradient")
    precision: Precision = Field(
        "auto", description="auto: bf16 where the hardware has it, or else fp16 on a GPU"
    )
    encoder_dropout: float | None = Field(
        None, ge=0, lt=1, description="in every layer of the encoder; null: the model's own"
    )
    # Checkpoints and data (simcse.md, sections 1.1 and 1.4)
    evaluation_interval: int = Field(125, ge=1, description="steps between two evaluations on dev")
    sentences: Annotated[str, Accepts("sentences")] = Field(
        "wiki1m", description="unlabelled corpus"
    )
    triplets: Annotated[str, Accepts("triplets")] = Field(
        "nli-triplets", description="corpus of premise, entailment, contradiction"
    )
    accumulation: int = Field(
        1, ge=1, description="batches per step, each with negatives of its own alone"
    )
    gradient_checkpointing: bool = Field(
        False, description="less memory, more time: activations are computed twice"
    )
    # Experiments with few labels (diffaug.md, section 7)
    label_fraction: float = Field(
        1.0, gt=0, le=1, description="share of the labelled data that is used"
    )
    subset: int = Field(
        0, ge=0, description="which random subset of the labels, where only a share is used"
    )

    def stage(
        self,
        name: str,
        *,
        trains: Iterable[str] | Mapping[str, str] = ("*",),
        streams: Mapping[str, int] | None = None,
        losses: Mapping[str, LossWeight] | None = None,
        **options: Unpack[StageOptions],
    ) -> Stage:
        """A stage as long as this configuration says (`epochs`, at most `max_steps`).

        trains: patterns of parameter names that train at `learning_rate`, or pattern -> field with
        the rate; all parameters by default. streams: stream -> items in a batch; by default the
        stream `name` with `batch_size` items. losses: loss -> weight; by default the loss `name`
        with the weight 1.

        Example:
            config.stage("contrastive", trains=["prompts.*", "head.*"])
        """
        if isinstance(trains, str):  # it would be the list of its letters, with a star perhaps
            raise TypeError(f"trains is a list of patterns, and not the text {trains!r}")
        rates = trains if isinstance(trains, Mapping) else dict.fromkeys(trains, "learning_rate")
        options.setdefault("accumulation", self.accumulation)
        return Stage(
            name,
            trains=rates,
            streams={name: self.batch_size} if streams is None else streams,
            losses={name: 1.0} if losses is None else losses,
            epochs=self.epochs,
            max_steps=self.max_steps,
            **options,
        )


def label_share(config: MethodConfig) -> tuple[float, int]:
    """The share of the labels that a configuration uses, and the number of the random subset."""
    if isinstance(config, TrainingConfig):
        return config.label_fraction, config.subset
    return 1.0, 0
