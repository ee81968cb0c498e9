"""DiffAug: two prefix modules make the two views; they are tuned on NLI first, then the encoder on contrastive pairs.

Wang and Lu, EMNLP 2022; diffaug.md. Semi-supervised (Wiki1M sentences, NLI for the prefixes and, with an auxiliary
weight, in the second stage) or supervised (NLI triplets in both stages).
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor

from harness import plugin
from harness.data.templates import TemplateText, hard_prompt, published_templates
from harness.data.tokens import Template
from harness.losses.info_nce import info_nce
from harness.losses.nli import PairClassifier, triplet_loss
from harness.modules.adapters import Combination, LowRankModules
from harness.modules.denoising import module_template_vectors
from harness.modules.heads import TanhHead
from harness.modules.prefixes import PrefixModules
from harness.plugin import Kit, Optimisation, Stage, TextBatch

from .analysis import PrefixAnalysis

LABELLED, CONTRASTIVE, CLASSIFICATION, ANALYSED = (
    "labelled",
    "contrastive",
    "classification",
    "analysed",
)
STAGE_1 = "augmentation"
SECOND_STAGE = {
    "all": ("encoder.*", "augmentation.*"),
    "encoder": ("encoder.*",),
    "augmentation": ("augmentation.*",),
}
"""What trains besides head and classifier"""
AFTER_STAGE_1 = {
    "learning_rate", "batch_size", "epochs", "max_steps", "accumulation", "temperature", "sentences", "second_stage",
    "auxiliary_weight", "auxiliary_batch_size", "auxiliary_released", "stage1_steps", "denoising", "combination",
}  # fmt: skip
"""Fields that change nothing in stage 1"""


class Config(plugin.TrainingConfig):
    """Table 5 of the paper; field defaults: semi-supervised with the auxiliary loss."""

    setting: Literal["semisup", "sup"] = "semisup"
    learning_rate: float = Field(1e-5, gt=0, description="of stage 2, prefixes included")
    batch_size: int = Field(256, ge=2)
    evaluation_interval: int = Field(50, ge=1)
    accumulation: int = Field(1, ge=1, description="batches per update in stage 2")
    auxiliary_weight: float = Field(
        1e-3, ge=0, description="alpha: of the NLI loss in semi-supervised stage 2"
    )
    auxiliary_batch_size: int = Field(128, ge=1)
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
    prefix_length: int = Field(8, ge=1, description="rows of one module; there are two")
    share_network: bool = Field(True, description="one reparametrisation network for both modules")
    rank: int = Field(4, ge=1, description="of adapters and LoRA")
    lora_scale: float = Field(1.0, gt=0)
    combination: Combination = Field(
        "mean", description="of the two adapter or LoRA sets at test time"
    )
    stage1_steps: int = Field(1500, ge=0)
    stage1_learning_rate: float = Field(1e-3, gt=0)
    stage1_batch_size: int = Field(128, ge=1, description="triplets")
    stage1_decay_steps: int = Field(
        3907, ge=1, description="update at which stage 1's rate would be 0"
    )
    stage1_clip: Literal["clean", "released"] = "clean"
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
            "learning_rate": 5e-5, "batch_size": 128, "accumulation": 4, "epochs": 3, "stage1_steps": 1250,
            "stage1_decay_steps": 1614, "auxiliary_weight": 0.0,
        },
    }  # fmt: skip

    @model_validator(mode="before")
    @classmethod
    def _dependent_defaults(cls, given: Any) -> Any:
        """Without the auxiliary loss stage 1 is longer (Table 5); with few labels nothing is accumulated (diffaug.md, section 7)."""
        if not isinstance(given, Mapping):
            return given
        chosen: dict[str, Any] = {}
        if given.get("setting") != "sup" and float(given.get("auxiliary_weight", 1)) == 0:
            chosen["stage1_steps"] = 2000
        if given.get("setting") == "sup" and float(given.get("label_fraction", 1)) < 1:
            chosen["accumulation"] = 1
        return {**chosen, **given}

    @model_validator(mode="after")
    def _analysis_is_of_prefixes(self) -> "Config":
        if self.analysis and (self.augmentation != "prefix" or not self.stage1_steps):
            raise ValueError(
                "analysis follows prefixes in stage 1: it needs augmentation=prefix and stage1_steps > 0"
            )
        return self


class Method(plugin.Method[Config]):
    """Stage 1 trains the modules and the classifier on a frozen encoder, stage 2 everything."""

    @classmethod
    def corpora(cls, config: Config) -> dict[str, str]:
        return {
            LABELLED: config.triplets,
            CONTRASTIVE: config.triplets if config.setting == "sup" else config.sentences,
            **({ANALYSED: config.sentences} if config.analysis else {}),
        }

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        released = config.stage1_clip == "released"
        first = Stage(
            name=STAGE_1,
            trains=dict.fromkeys(("augmentation.*", "classifier.*"), "stage1_learning_rate"),
            streams={LABELLED: config.stage1_batch_size},
            losses={CLASSIFICATION: 1.0},
            epochs=None,
            max_steps=config.stage1_steps,
            optimisation=Optimisation(
                optimiser="adamw-released" if released else "adamw",
                clipping="released" if released else "trainable",
                decay_steps=config.stage1_decay_steps,
            ),
            shared=tuple(name for name in type(config).model_fields if name not in AFTER_STAGE_1),
        )
        auxiliary = config.auxiliary_weight * (2 if config.auxiliary_released else 1)
        streams, losses = {CONTRASTIVE: config.batch_size}, {CONTRASTIVE: 1.0}
        if auxiliary:
            streams[LABELLED], losses[CLASSIFICATION] = config.auxiliary_batch_size, auxiliary
        second = config.stage(
            CONTRASTIVE,
            trains=[*SECOND_STAGE[config.second_stage], "head.*", "classifier.*"],
            streams=streams,
            losses=losses,
            accumulation=config.accumulation,
        )
        return [first, second] if config.stage1_steps else [second]

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.wrapped = hard_prompt(
            self.tokenizer, config.template or published_templates(config.encoder)[0]
        )
        self.template = (
            self.wrapped if config.roberta_prefix_space else self.wrapped.without_leading_space()
        )
        self.encoder = kit.encoder()
        width = self.encoder.hidden_size
        self.head = TanhHead(width)
        self.classifier = PairClassifier(width, classes=2)
        self.augmentation: PrefixModules | LowRankModules
        if config.augmentation == "prefix":
            self.augmentation = PrefixModules(
                self.encoder, config.prefix_length, share_network=config.share_network
            )
        else:
            self.augmentation = LowRankModules(
                self.encoder,
                config.augmentation,
                config.rank,
                scale=config.lora_scale,
                combination=config.combination,
            )
        self.analysis = PrefixAnalysis(self, kit, self._states) if config.analysis else None

    @property
    def training_pieces(self) -> int:
        return self.config.max_length

    @property
    def evaluation_template(self) -> Template:
        return self.wrapped

    @property
    def longest(self) -> int:
        return self.encoder.longest - self.augmentation.position_offset

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        found = {}
        if LABELLED in batch:
            found[CLASSIFICATION] = triplet_loss(
                self.classifier, *self._views(batch[LABELLED], denoised=False)
            )
        if CONTRASTIVE in batch:
            texts = (
                batch[CONTRASTIVE]
                if self.config.setting == "sup"
                else batch[CONTRASTIVE].repeated(2)
            )
            views = self._views(texts, denoised=True)
            found[CONTRASTIVE] = info_nce(*views, temperature=self.config.temperature)
        return found

    def watched(self, stage: Stage) -> dict[str, float]:
        return self.analysis() if self.analysis and stage.name == STAGE_1 else {}

    def embed(self, batch: TextBatch) -> Tensor:
        """The raw mask vector of one pass in which both modules are visible; no head, no denoising."""
        return self._states(batch, None)

    def _views(self, texts: TextBatch, *, denoised: bool) -> tuple[Tensor, ...]:
        """Training vectors of each view, (items, H): premises and first views meet module 0, all others module 1."""
        view = torch.arange(len(texts.input_ids), device=texts.input_ids.device) % texts.views
        modules = None if self.config.views == "same" else view.clamp(max=1)
        states = self._states(texts, modules)
        if denoised:
            released = self.config.denoising == "released"
            states = states - module_template_vectors(
                self.encoder, self.template, self.augmentation, texts, modules, released=released
            )
        return texts.split(self.head(states))

    def _states(self, batch: TextBatch, modules: Tensor | None) -> Tensor:
        where = self.template.mask_positions(batch.attention_mask)
        return self.encoder.at(
            batch, where, **self.augmentation.reach(len(batch.input_ids), modules)
        )
