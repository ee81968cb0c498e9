"""MixCSE: SimCSE with hard negatives that mix a sentence with another one.

Zhang et al., AAAI 2022; mixcse.md.
"""

from typing import ClassVar, Literal

from pydantic import Field

from harness import plugin
from harness.plugin import Stage


class Config(plugin.TrainingConfig):
    """mixcse.md, section 3; the field defaults are those of BERT base."""

    setting: Literal["unsup"] = "unsup"
    mixing_share: float = Field(
        0.2, ge=0, le=1, description="lambda: share of a sentence in its mixed negatives"
    )
    dev_head: bool = Field(True, description="the head is part of the vectors that dev scores")

    released: ClassVar = frozenset({"dev_head"})


class Declaration(plugin.Declaration[Config]):
    """The corpora, artefacts and stages of the method."""

    @classmethod
    def corpora(cls, config: Config) -> dict[str, str]:
        return {"contrastive": config.sentences}

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        return [config.stage("contrastive", capturable=True)]
