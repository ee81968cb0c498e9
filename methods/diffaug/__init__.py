"""DiffAug: two prefix modules make the two views of a sentence.

Wang and Lu, EMNLP 2022; diffaug.md. Stage 1 tunes the modules on NLI with a frozen encoder, stage
2 trains everything contrastively. Semi-supervised: Wiki1M sentences, with NLI for stage 1 and, at
an auxiliary weight, in stage 2. Supervised: NLI triplets in both stages.
"""

from collections.abc import Collection, Mapping
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from harness import plugin
from harness.choices import Combination, TemplateText
from harness.plugin import Optimisation, Stage

STAGE_2_TRAINS = {
    "all": ("encoder.*", "augmentation.*"),
    "encoder": ("encoder.*",),
    "augmentation": ("augmentation.*",),
}
"""What trains besides head and classifier"""
OF_PREFIXES = ("prompt_length", "share_network", "position_shift")
OF_OTHERS = ("rank", "lora_scale", "combination")
"""Fields of adapters and LoRA"""
OF_STAGE_1 = ("stage1_learning_rate", "stage1_batch_size", "stage1_decay_steps", "stage1_clip")
AFTER_STAGE_1 = {
    "learning_rate", "batch_size", "epochs", "max_steps", "accumulation", "temperature",
    "sentences", "second_stage", "auxiliary_weight", "auxiliary_batch_size", "auxiliary_released",
    "stage1_steps", "denoising",
}  # fmt: skip
"""Fields that change nothing in stage 1, its dev scores included.

Trials that differ in them alone run it once."""


class Config(plugin.TrainingConfig):
    """Table 5 of the paper; the field defaults are semi-supervised with the auxiliary loss."""

    setting: Literal["semisup", "sup"] = "semisup"
    learning_rate: float = Field(1e-5, gt=0, description="of stage 2, prefixes included")
    batch_size: int = Field(256, ge=2)
    evaluation_interval: int = Field(50, ge=1)
    accumulation: int = Field(1, ge=1, description="batches per step in stage 2")
    auxiliary_weight: float = Field(
        1e-3, ge=0, description="alpha: of the NLI loss in semi-supervised stage 2"
    )
    auxiliary_batch_size: int = Field(128, ge=1, description="triplets")
    auxiliary_released: bool = Field(
        False, description="double alpha, as the released two-process runs did"
    )
    augmentation: Literal["prefix", "adapter", "lora"] = Field(
        "prefix", description="what makes the two views"
    )
    views: Literal["different", "same"] = Field(
        "different", description="same: both views see both modules"
    )
    second_stage: Literal["all", "encoder", "augmentation"] = Field(
        "all",
        description="what trains with the head: encoder = prefix-fix, augmentation = prefix-tuning",
    )
    prompt_length: int = Field(8, ge=1, description="rows of one module; there are two")
    position_shift: bool = Field(
        True,
        description="the positions of the text start behind the rows of both modules, as released",
    )
    share_network: bool = Field(True, description="one reparametrisation network for both modules")
    rank: int = Field(4, ge=1, description="of adapters and LoRA")
    lora_scale: float = Field(1.0, gt=0, description="s of eq. 15")
    combination: Combination = Field(
        "mean", description="of the two adapter or LoRA sets at test time"
    )
    stage1_steps: int = Field(1500, ge=0)
    stage1_learning_rate: float = Field(1e-3, gt=0)
    stage1_batch_size: int = Field(128, ge=1, description="triplets")
    stage1_decay_steps: int = Field(
        3907, ge=1, description="step at which stage 1's rate would be 0"
    )
    stage1_clip: Literal["clean", "released"] = Field(
        "clean", description="released: the fp16 accident of diffaug.md, section 3.1"
    )
    template: TemplateText | None = Field(
        None, description="hard prompt with {s} and [MASK]; default: the paper's"
    )
    denoising: Literal["intended", "released"] = Field(
        "intended", description="lengths and positions of the templates"
    )
    roberta_prefix_space: bool = Field(
        True, description="mark the space before a training sentence, as in evaluation"
    )
    analysis: bool = Field(
        False, description="representation divergence and weight convergence along stage 1"
    )

    published: ClassVar = {
        ("sup", "*"): {
            "learning_rate": 5e-5, "batch_size": 128, "accumulation": 4, "epochs": 3,
            "stage1_steps": 1250, "stage1_decay_steps": 1614, "auxiliary_weight": 0.0,
        },
    }  # fmt: skip
    released: ClassVar = frozenset({
        "auxiliary_released", "position_shift", "stage1_decay_steps", "stage1_clip",
        "denoising", "roberta_prefix_space",
    })  # fmt: skip

    @classmethod
    def dependent_defaults(cls, given: Mapping[str, object]) -> Mapping[str, object]:
        """Stage 1 is longer without the auxiliary loss; few labels are not accumulated.

        Table 5 of the paper; diffaug.md, section 7.
        """
        if given.get("setting") == "sup":
            # With 4 batches a step, 1 % of the labels would leave 15 steps.
            few_labels = float(str(given.get("label_fraction", 1))) < 1
            return {"accumulation": 1} if few_labels else {}
        auxiliary = float(str(given.get("auxiliary_weight", 1)))
        return {} if auxiliary else {"stage1_steps": 2000}

    @property
    def unused(self) -> Collection[str]:
        prefix = self.augmentation == "prefix"
        return {
            *(OF_OTHERS if prefix else OF_PREFIXES),
            *(() if self.auxiliary_weight else ("auxiliary_batch_size", "auxiliary_released")),
            *(() if self.stage1_steps else OF_STAGE_1),
        }

    @model_validator(mode="after")
    def _analysis_is_of_prefixes(self) -> Self:
        if self.analysis and (self.augmentation != "prefix" or not self.stage1_steps):
            raise ValueError(
                "analysis follows prefixes in stage 1: "
                "it needs augmentation=prefix and stage1_steps > 0"
            )
        return self

    @property
    def alpha(self) -> float:
        """The weight of the auxiliary loss in stage 2 (diffaug.md, section 4)."""
        return self.auxiliary_weight * (2 if self.auxiliary_released else 1)


class Declaration(plugin.Declaration[Config]):
    """The corpora, artefacts and stages of the method."""

    @classmethod
    def corpora(cls, config: Config) -> dict[str, str]:
        return {
            "labelled": config.triplets,
            "contrastive": config.triplets if config.setting == "sup" else config.sentences,
            # No stage reads it. A declared corpus is part of the trial's key and tokenised early.
            **({"analysed": config.sentences} if config.analysis else {}),
        }

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        first, second = cls._stage_1(config), cls._stage_2(config)
        return [first, second] if config.stage1_steps else [second]

    @classmethod
    def _stage_1(cls, config: Config) -> Stage:
        """Eq. 4: the modules and the classifier learn NLI. Encoder and head do not train."""
        released = config.stage1_clip == "released"
        return Stage(
            "augmentation",
            trains=dict.fromkeys(("augmentation.*", "classifier.*"), "stage1_learning_rate"),
            streams={"labelled": config.stage1_batch_size},
            losses={"classification": 1.0},
            epochs=None,  # triplets start again until the steps are done
            max_steps=config.stage1_steps,
            capturable=True,
            optimisation=Optimisation(
                optimiser="adamw-released" if released else "adamw",
                clipping="released" if released else "trainable",
                # The released horizon is that of stage 2 (diffaug.md, section 3).
                decay_steps=config.stage1_decay_steps,
            ),
            shared=tuple(name for name in type(config).model_fields if name not in AFTER_STAGE_1),
        )

    @classmethod
    def _stage_2(cls, config: Config) -> Stage:
        """Eq. 5: everything learns contrastively, with alpha also NLI (diffaug.md, section 4)."""
        streams, losses = {"contrastive": config.batch_size}, {"contrastive": 1.0}
        trained = [*STAGE_2_TRAINS[config.second_stage], "head.*"]
        if config.alpha:
            trained.append("classifier.*")
            streams["labelled"] = config.auxiliary_batch_size
            losses["classification"] = config.alpha
        return config.stage(
            "contrastive",
            trains=trained,
            streams=streams,
            losses=losses,
            accumulation=config.accumulation,
            capturable=True,
        )
