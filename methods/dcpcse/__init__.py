"""DCPCSE: contrastive learning of continuous prompts on a frozen encoder.

Jiang and Wang, arXiv 2203.06875v1; dcpcse.md. With shallow prompts it is SCPCSE (section 3.3 of
the paper). The hinge loss, and prompts that layers share or that stand at the input alone, are of
its second version, PromCSE (dcpcse.md, sections 1.5 and 2).
"""

from collections.abc import Collection, Mapping
from typing import ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

from harness import plugin
from harness.choices import TemplateText
from harness.plugin import LossWeight, Stage

MASKED_LANGUAGE = {"masked_language_weight", "masking_ratio", "freeze_lm_head"}
"""The fields of the masked-LM loss"""
AS_WORDS = ("input-layer", "shallow")
"""The prompts that are word vectors"""
SHALLOW = {"learning_rate": 1e-3, "batch_size": 256, "epochs": 5, "mlm": False}
"""The values of SCPCSE, for every encoder (dcpcse.md, section 3)"""


class Config(plugin.TrainingConfig):
    """dcpcse.md, section 4; the field defaults are those of unsupervised BERT base."""

    setting: Literal["unsup", "sup"] = "unsup"
    learning_rate: float = Field(3e-2, gt=0, description="of every trainable tensor")
    batch_size: int = Field(256, ge=2)
    prompts: Literal["deep", "layer-shared", "input-layer", "shallow"] = Field(
        "deep",
        description="deep: keys and values of every layer; layer-shared: the same ones in all "
        "layers; input-layer: word vectors in front of the text (both PromCSE); "
        "shallow: word vectors of a template (SCPCSE)",
    )
    prompt_length: int = Field(16, ge=1, description="prompt positions, of a layer or of the input")
    position_shift: bool = Field(
        True, description="the positions of the text start behind the deep prompts, as released"
    )
    template: TemplateText = Field(
        'This sentence : "{s}" means [MASK]', description="where shallow prompts begin"
    )
    hard_negative_weight: float = Field(
        0.0, description="log weight of an anchor's own hard negative (supervised)"
    )
    hinge_weight: float = Field(
        0.0, ge=0, description="of PromCSE's energy-based hinge loss (supervised); released: 10"
    )
    hinge_margin: float = Field(0.2, gt=0, description="of the hinge loss, on the scale of cosines")
    mlm: bool = Field(False, description="with the masked-LM loss, whose weight decays")
    masked_language_weight: float = Field(
        0.1, ge=0, description="before the first step; 0.95 times as much after every 100 steps"
    )
    masking_ratio: float = Field(0.15, ge=0, le=1, description="of the masked-LM loss")
    freeze_lm_head: bool = Field(False, description="do not train the masked-LM head")

    published: ClassVar = {
        ("unsup", "bert-large-uncased"): {"prompt_length": 10},
        ("unsup", "roberta-base"): {"batch_size": 64, "prompt_length": 14, "mlm": True},
        ("unsup", "roberta-large"): {
            "learning_rate": 1e-2, "batch_size": 64, "prompt_length": 10, "mlm": True,
        },
        ("sup", "*"): {"learning_rate": 5e-3, "prompt_length": 12, "epochs": 10},
        ("sup", "roberta-base"): {"learning_rate": 1e-2, "prompt_length": 10},
        ("sup", "roberta-large"): {"prompt_length": 10},
    }  # fmt: skip
    released: ClassVar = frozenset({"position_shift"})

    @classmethod
    def dependent_defaults(cls, given: Mapping[str, object]) -> Mapping[str, object]:
        """Shallow prompts have values of their own."""
        return SHALLOW if given.get("prompts") == "shallow" else {}

    @property
    def unused(self) -> Collection[str]:
        return {
            *(("prompt_length",) if self.prompts == "shallow" else ("template",)),
            *(() if self.in_layers else ("position_shift",)),
            *(() if self.setting == "sup" else ("hard_negative_weight",)),
            *(() if self.hinge_weight else ("hinge_margin",)),
            *(() if self.mlm else MASKED_LANGUAGE),
        }

    @property
    def in_layers(self) -> bool:
        """Whether the prompts are keys and values of the layers, and not word vectors."""
        return self.prompts not in AS_WORDS

    @property
    def front(self) -> int:
        """The word vectors in front of [CLS]."""
        return self.prompt_length if self.prompts == "input-layer" else 0

    @field_validator("hinge_weight")
    @classmethod
    def _with_hard_negatives(cls, weight: float, info: ValidationInfo) -> float:
        if weight and info.data.get("setting") == "unsup":
            raise ValueError("the hinge loss needs hard negatives: add setting=sup")
        return weight

    @field_validator("mlm")
    @classmethod
    def _in_layers_only(cls, mlm: bool, info: ValidationInfo) -> bool:
        if mlm and (prompts := info.data.get("prompts")) in AS_WORDS:
            raise ValueError(f"{prompts} prompts have no masked-LM loss, deep ones do")
        return mlm


class Declaration(plugin.Declaration[Config]):
    """The corpora, artefacts and stages of the method."""

    @classmethod
    def corpora(cls, config: Config) -> dict[str, str]:
        return {"contrastive": config.sentences if config.setting == "unsup" else config.triplets}

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        trained = ["prompts.*", "head.*"]
        if config.mlm and not config.freeze_lm_head:
            trained.append("vocabulary.*")
        streams = {"contrastive": config.batch_size}
        losses: dict[str, LossWeight] = {"contrastive": 1.0}
        if config.hinge_weight:
            losses["hinge"] = config.hinge_weight
        if config.mlm:
            losses["masked_language"] = decaying(config.masked_language_weight)
        return [
            config.stage(
                "prompts",
                trains=trained,
                streams=streams,
                losses=losses,
                capturable=not config.mlm,  # the CPU waits for the number of masked words
            )
        ]


def decaying(weight: float) -> LossWeight:
    """The weight of the masked-LM loss: steps done -> `weight` * 0.95^(steps / 100).

    This is lambda of the paper's section 2.2. The exponent is a real number.
    """
    return lambda steps: weight * 0.95 ** (steps / 100)
