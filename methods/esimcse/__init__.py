"""ESimCSE: unsupervised SimCSE with repeated words in view 2 and a momentum queue of negatives.

Wu et al., COLING 2022; esimcse.md.
"""

from collections.abc import Collection
from typing import ClassVar, Literal

from pydantic import Field

from harness import plugin
from harness.choices import MomentumStart, RepetitionRange
from harness.plugin import Stage


class Config(plugin.TrainingConfig):
    """esimcse.md, section 3; the field defaults are those of BERT base.

    Without repetition and queue it is SimCSE.
    """

    setting: Literal["unsup"] = "unsup"
    repetition_rate: float = Field(
        0.32, ge=0, le=1, description="bounds the word pieces repeated in view 2; 0: none"
    )
    repetition_range: RepetitionRange = Field(
        "code", description="the bound: the released code's or the paper's"
    )
    queue_ratio: float = Field(
        2.5, ge=0, description="queue size in batches; 0: no queue and no momentum encoder"
    )
    momentum: float = Field(
        0.995, ge=0, le=1, description="share of the momentum encoder that stays in a step"
    )
    momentum_start: MomentumStart = Field(
        "pretrained", description="random: as the released code did by accident"
    )
    encoder_dropout: float = Field(0.1, ge=0, lt=1, description="in every layer")

    published: ClassVar = {
        ("unsup", "bert-large-uncased"): {"learning_rate": 1e-5},
        ("unsup", "roberta-base"): {"learning_rate": 1e-5, "repetition_rate": 0.3},
        ("unsup", "roberta-large"): {
            "learning_rate": 1e-5, "repetition_rate": 0.28, "queue_ratio": 2.0,
            "encoder_dropout": 0.15,
        },
    }  # fmt: skip
    """The rate of bert-large is SimCSE's; the RoBERTas have the values of the released `run.sh`"""
    released: ClassVar = frozenset({"repetition_range", "momentum_start"})

    @property
    def unused(self) -> Collection[str]:
        return {
            *(() if self.repetition_rate else ("repetition_range",)),
            *(() if self.queue_size else ("momentum", "momentum_start")),
        }

    @property
    def queue_size(self) -> int:
        """Vectors in the queue of negatives."""
        return int(self.queue_ratio * self.batch_size)


class Declaration(plugin.Declaration[Config]):
    """The corpora, artefacts and stages of the method."""

    @classmethod
    def corpora(cls, config: Config) -> dict[str, str]:
        return {"contrastive": config.sentences}

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        trained = ["encoder.*", "head.*"]
        moved = ("momentum.*",) if config.queue_size else ()
        return [config.stage("contrastive", trains=trained, moves=moved)]
