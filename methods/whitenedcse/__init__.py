"""WhitenedCSE: several views of a sentence, each whitened in shuffled groups of channels.

Zhuo et al., ACL 2023; whitenedcse.md.
"""

from typing import ClassVar, Literal

from pydantic import Field

from harness import plugin
from harness.plugin import Stage


class Config(plugin.TrainingConfig):
    """whitenedcse.md, section 3; the field defaults are those of BERT base."""

    setting: Literal["unsup"] = "unsup"
    learning_rate: float = Field(1e-5, gt=0)
    batch_size: int = Field(128, ge=2, description="sentences")
    views: int = Field(
        3, ge=2, description="of a sentence; the first one is compared with each of the others"
    )
    group_size: int = Field(6, ge=1, description="channels that are whitened together")

    published: ClassVar = {("unsup", "bert-large-uncased"): {"group_size": 8}}


class Declaration(plugin.Declaration[Config]):
    """The corpora, artefacts and stages of the method."""

    @classmethod
    def corpora(cls, config: Config) -> dict[str, str]:
        return {"contrastive": config.sentences}

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        return [config.stage("contrastive")]
