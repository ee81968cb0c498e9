"""DCPCSE: contrastive learning of continuous prompts on a frozen encoder; with shallow prompts it is SCPCSE.

Jiang and Wang, arXiv 2203.06875v1; dcpcse.md.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator
from torch import Tensor

from harness import plugin
from harness.data.templates import TemplateText, hard_prompt
from harness.encoders.backbone import Reach
from harness.losses.info_nce import info_nce
from harness.losses.masked_language import masked_language_loss
from harness.modules.heads import TanhHead
from harness.modules.prompts import DeepPrompts, ShallowPrompts
from harness.plugin import Kit, Stage, TextBatch
from harness.views.masking import Masker

SHALLOW = {"learning_rate": 1e-3, "batch_size": 256, "epochs": 5, "mlm": False}
"""SCPCSE's values, for every encoder"""


class Config(plugin.TrainingConfig):
    """Tables 3 and 4 of the paper; field defaults: unsupervised BERT base."""

    setting: Literal["unsup", "sup"] = "unsup"
    learning_rate: float = Field(3e-2, gt=0, description="of every trainable tensor")
    batch_size: int = Field(256, ge=2)
    prompts: Literal["deep", "shallow"] = Field(
        "deep",
        description="deep: keys and values in every layer; shallow: word vectors of a template (SCPCSE)",
    )
    prompt_length: int = Field(16, ge=1, description="deep prompt positions per layer")
    template: TemplateText = Field(
        'This sentence : "{s}" means [MASK]', description="where shallow prompts begin"
    )
    hard_negative_weight: float = Field(
        0.0, description="log weight of an anchor's own hard negative (supervised)"
    )
    mlm: bool = Field(False, description="with the masked-LM loss, whose weight decays")
    masked_language_weight: float = Field(
        0.1, ge=0, description="before the first update; 0.95 times in 100 updates"
    )
    masking_ratio: float = Field(0.15, ge=0, le=1)
    freeze_lm_head: bool = Field(False, description="do not train the masked-LM head")

    published: ClassVar = {
        ("unsup", "bert-large-uncased"): {"prompt_length": 10},
        ("unsup", "roberta-base"): {"batch_size": 64, "prompt_length": 14, "mlm": True},
        ("unsup", "roberta-large"): {
            "learning_rate": 1e-2,
            "batch_size": 64,
            "prompt_length": 10,
            "mlm": True,
        },
        ("sup", "*"): {"learning_rate": 5e-3, "prompt_length": 12, "epochs": 10},
        ("sup", "roberta-base"): {"learning_rate": 1e-2, "prompt_length": 10},
        ("sup", "roberta-large"): {"prompt_length": 10},
    }

    @model_validator(mode="before")
    @classmethod
    def _shallow_values(cls, given: Any) -> Any:
        shallow = isinstance(given, Mapping) and given.get("prompts") == "shallow"
        return {**SHALLOW, **given} if shallow else given

    @field_validator("mlm")
    @classmethod
    def _deep_only(cls, mlm: bool, info: ValidationInfo) -> bool:
        if mlm and info.data.get("prompts") == "shallow":
            raise ValueError("shallow prompts have no masked-LM loss, deep ones do")
        return mlm


class Method(plugin.Method[Config]):
    """Prompts, tanh head and (with MLM) the vocabulary head train; the encoder is frozen, its dropout stays on."""

    @classmethod
    def corpora(cls, config: Config) -> dict[str, str]:
        return {"contrastive": config.sentences if config.setting == "unsup" else config.triplets}

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        trained = ("prompts.*", "head.*", *(() if config.freeze_lm_head else ("vocabulary.*",)))
        masked = {"masked_language": decaying(config.masked_language_weight)} if config.mlm else {}
        streams, losses = {"contrastive": config.batch_size}, {"contrastive": 1.0, **masked}
        return [config.stage("prompts", trains=trained, streams=streams, losses=losses)]

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.encoder = kit.encoder()
        self.prompts: DeepPrompts | ShallowPrompts
        if config.prompts == "deep":
            self.prompts = DeepPrompts(self.encoder, config.prompt_length)
        else:
            self.template = hard_prompt(self.tokenizer, config.template)
            self.prompts = ShallowPrompts(self.encoder, self.template)
        self.head = TanhHead(self.encoder.hidden_size)
        if config.mlm:
            self.masker = Masker(self.tokenizer, config.masking_ratio)
            self.vocabulary = kit.vocabulary_head()

    @property
    def training_pieces(self) -> int:
        """The limit is for [CLS] X [SEP]; a shallow prompt's template comes on top."""
        return self.config.max_length - 2

    @property
    def longest(self) -> int:
        return self.encoder.longest - (
            self.prompts.length if isinstance(self.prompts, DeepPrompts) else 0
        )

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        texts = batch["contrastive"]
        if self.config.setting == "unsup":
            texts = texts.repeated(2)
        reach = self._reach(texts)
        views = texts.split(self.head(self._states(texts, reach)))
        weight = self.config.hard_negative_weight
        found = {
            "contrastive": info_nce(
                *views, temperature=self.config.temperature, hard_negative_weight=weight
            )
        }
        if self.config.mlm:  # a second pass, on masked rows, with the first one's prompts
            masked = self.masker(texts.input_ids)
            states = self.encoder(texts.replaced(masked.input_ids, texts.attention_mask), **reach)
            found["masked_language"] = masked_language_loss(
                self.vocabulary, states, texts.input_ids, masked.chosen
            )
        return found

    def embed(self, batch: TextBatch) -> Tensor:
        states = self._states(batch, self._reach(batch))
        return self.head(states) if self.config.setting == "sup" else states

    def _reach(self, batch: TextBatch) -> Reach:
        """The prompts of these rows, with their dropout; deep ones shift the text's positions."""
        if isinstance(self.prompts, DeepPrompts):
            return {
                "prefix": self.prompts(len(batch.input_ids)),
                "position_offset": self.prompts.length,
            }
        return {"words": self.prompts(batch.attention_mask)}

    def _states(self, batch: TextBatch, reach: Reach) -> Tensor:
        """The state at [CLS], or at the mask of shallow prompts, (rows, H)."""
        deep = isinstance(self.prompts, DeepPrompts)
        return self.encoder.at(
            batch, 0 if deep else self.template.mask_positions(batch.attention_mask), **reach
        )


def decaying(weight: float) -> Callable[[int], float]:
    """From the number of updates done to `weight` * 0.95^(updates / 100), the exponent a real number."""
    return lambda updates: weight * 0.95 ** (updates / 100)
