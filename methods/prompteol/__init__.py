"""PromptEOL: a decoder says a sentence "in one word", and the state before that word is its vector.

Jiang et al., Findings of EMNLP 2024; prompteol.md. The setting unsup trains nothing.
"""

from collections.abc import Collection
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from harness import plugin
from harness.choices import SENTENCE
from harness.plugin import MethodConfig, Stage, TrainingConfig


def with_a_sentence(text: str) -> str:
    """The text of prompts. Raises ValueError unless each has one {s}, with something behind."""
    for prompt in text.splitlines() or [""]:
        if prompt.count(SENTENCE) != 1 or prompt.endswith(SENTENCE):
            raise ValueError(f"a prompt has one {SENTENCE}, and something behind it")
    return text


class Config(plugin.TrainingConfig):
    """prompteol.md, section 3, says where the values come from."""

    setting: Literal["unsup", "sup"] = "unsup"
    template: Annotated[str, AfterValidator(with_a_sentence)] = Field(
        'This sentence : "{s}" means in one word:"',
        description="prompt with {s}, which may begin with a demonstration; of several, one to a "
        "line, the vector is the mean",
    )
    tidied: bool = Field(
        True,
        description="end a test sentence with a full stop, also in the place of a question mark, "
        "and write ' for \"",
    )

    published: ClassVar = {
        ("sup", "*"): {
            "learning_rate": 5e-4, "batch_size": 256, "lora_rank": 64, "warmup_ratio": 0.093,
            "evaluation_interval": 50,
        },
    }  # fmt: skip
    released: ClassVar = frozenset({"tidied"})

    @property
    def unused(self) -> Collection[str]:
        trained = TrainingConfig.model_fields.keys() - MethodConfig.model_fields.keys()
        return {"decoder_pooling", *(trained if self.setting == "unsup" else ())}


class Declaration(plugin.Declaration[Config]):
    """The corpora, artefacts and stages of the method."""

    @classmethod
    def corpora(cls, config: Config) -> dict[str, str]:
        return {"contrastive": config.triplets} if config.setting == "sup" else {}

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        return [config.stage("contrastive", capturable=True)] if config.setting == "sup" else []
