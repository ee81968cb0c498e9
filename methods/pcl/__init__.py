"""PCL: two networks learn from many changed copies of a sentence, and from one another.

Wu et al., EMNLP 2022; pcl.md.
"""

from typing import Literal

from pydantic import Field

from harness import plugin
from harness.plugin import Stage


class Config(plugin.TrainingConfig):
    """pcl.md, section 4, says where the values come from."""

    setting: Literal["unsup"] = "unsup"
    rounds: int = Field(
        2, ge=1, description="changed copies of a sentence, in fours: one of each augmentation"
    )
    change_rate: float = Field(
        0.2, ge=0, lt=1, description="share of word pieces that deletion and repetition change"
    )

    @property
    def views(self) -> int:
        """Rows of a sentence: it stands there twice, and four times in each round."""
        return 2 + 4 * self.rounds


class Declaration(plugin.Declaration[Config]):
    """The corpora, artefacts and stages of the method."""

    @classmethod
    def corpora(cls, config: Config) -> dict[str, str]:
        return {"contrastive": config.sentences}

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        losses = {"contrastive": 1.0, "peer-positive": 1.0, "peer-network": 1.0}
        return [config.stage("contrastive", losses=losses, capturable=True)]
