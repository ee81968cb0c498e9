"""DCPCSE: contrastive learning of continuous prompts on a frozen encoder.

Jiang and Wang, arXiv 2203.06875v1; dcpcse.md. With shallow prompts it is SCPCSE (section 3.3 of
the paper).
"""

from collections.abc import Collection, Mapping
from typing import ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

from harness import plugin
from harness.choices import TemplateText
from harness.plugin import LossWeight, Stage

MASKED_LANGUAGE = {"masked_language_weight", "masking_ratio", "freeze_lm_head"}
"""The fields of the masked-LM loss"""
SHALLOW = {"learning_rate": 1e-3, "batch_size": 256, "epochs": 5, "mlm": False}
"""The values of SCPCSE, for every encoder (dcpcse.md, section 3)"""


class Config(plugin.TrainingConfig):
    """dcpcse.md, section 4; the field defaults are those of unsupervised BERT base."""

    setting: Literal["unsup", "sup"] = "unsup"
    learning_rate: float = Field(3e-2, gt=0, description="of every trainable tensor")
    batch_size: int = Field(256, ge=2)
    prompts: Literal["deep", "shallow"] = Field(
        "deep",
        description="deep: keys and values in every layer; "
        "shallow: word vectors of a template (SCPCSE)",
    )
    prompt_length: int = Field(16, ge=1, description="deep prompt positions per layer")
    position_shift: bool = Field(
        True, description="the positions of the text start behind the deep prompts, as released"
    )
    template: TemplateText = Field(
        'This sentence : "{s}" means [MASK]', description="where shallow prompts begin"
    )
    hard_negative_weight: float = Field(
        0.0, description="log weight of an anchor's own hard negative (supervised)"
    )
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
        prompts = {"prompt_length", "position_shift"} if self.prompts == "shallow" else {"template"}
        return prompts if self.mlm else prompts | MASKED_LANGUAGE

    @field_validator("mlm")
    @classmethod
    def _deep_only(cls, mlm: bool, info: ValidationInfo) -> bool:
        if mlm and info.data.get("prompts") == "shallow":
            raise ValueError("shallow prompts have no masked-LM loss, deep ones do")
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
        if config.mlm:
            losses["masked_language"] = decaying(config.masked_language_weight)
        return [config.stage("prompts", trains=trained, streams=streams, losses=losses)]


def decaying(weight: float) -> LossWeight:
    """The weight of the masked-LM loss: steps done -> `weight` * 0.95^(steps / 100).

    This is lambda of the paper's section 2.2. The exponent is a real number.
    """
    return lambda steps: weight * 0.95 ** (steps / 100)
