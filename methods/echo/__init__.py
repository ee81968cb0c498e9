"""Echo embeddings: a decoder reads a sentence twice, and the second time gives the vector.

Springer et al., ICLR 2025; echo.md. The setting unsup trains nothing.
"""

from collections.abc import Collection
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from harness import plugin
from harness.choices import SENTENCE
from harness.plugin import MethodConfig, Stage, TrainingConfig


def with_an_echo(text: str) -> str:
    """The text of a prompt. Raises ValueError unless it has {s} twice, the second at its end."""
    parts = text.split(SENTENCE)
    if len(parts) != 3 or parts[2]:
        raise ValueError(f"an echo has {SENTENCE} twice, the second one at its end")
    if parts[0].endswith(" ") != parts[1].endswith(" "):
        raise ValueError(f"a space stands in front of both {SENTENCE}, or of none")
    return text


class Config(plugin.TrainingConfig):
    """echo.md, section 3, says where the values come from."""

    setting: Literal["unsup", "sup"] = "unsup"
    template: Annotated[str, AfterValidator(with_an_echo)] = Field(
        "Rewrite the sentence: {s}, rewritten sentence: {s}", description="prompt with {s} twice"
    )
    echo_pooling: Literal["mean", "last-token"] = Field(
        "mean", description="over the tokens of the second {s}"
    )

    published: ClassVar = {
        ("sup", "*"): {
            "learning_rate": 5e-4, "batch_size": 256, "lora_rank": 64, "warmup_ratio": 0.093,
            "evaluation_interval": 50,
        },
    }  # fmt: skip

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
        return [config.stage("contrastive")] if config.setting == "sup" else []
