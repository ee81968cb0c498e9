"""SimCSE: contrastive learning with dropout views (unsupervised) or NLI triplets (supervised).

Gao, Yao and Chen, EMNLP 2021; baselines.md, section 2.
"""

from collections.abc import Mapping
from typing import ClassVar, Literal

from torch import Tensor

from harness import method
from harness.data.batching import TextBatch
from harness.encoders.heads import TanhHead
from harness.kit import Kit
from harness.method import Stage
from harness.objectives.infonce import info_nce


class Config(method.TrainingConfig):
    """Field defaults: unsupervised BERT base."""

    setting: Literal["unsup", "sup"] = "unsup"

    published: ClassVar = {
        ("unsup", "bert-large-uncased"): {"learning_rate": 1e-5},
        ("unsup", "roberta-base"): {"learning_rate": 1e-5, "batch_size": 512},
        ("unsup", "roberta-large"): {"learning_rate": 3e-5, "batch_size": 512},
        ("sup", "*"): {"learning_rate": 5e-5, "batch_size": 512, "epochs": 3},
        ("sup", "bert-large-uncased"): {"learning_rate": 1e-5},
        ("sup", "roberta-large"): {"learning_rate": 1e-5},
    }


class Method(method.Method):
    """The encoder trains in full under a fresh tanh head; without triplets the head is dropped at test time."""

    config_type = Config

    @classmethod
    def data(cls, config: Config) -> dict[str, str]:
        return {"contrastive": config.sentences if config.setting == "unsup" else config.triplets}

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        return [
            Stage(
                name="contrastive",
                trains={"*": "learning_rate"},
                streams={"contrastive": config.batch_size},
                losses={"contrastive": 1.0},
                epochs=config.epochs,
                max_steps=config.max_steps,
            )
        ]

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.encoder = kit.encoder()
        self.head = TanhHead(self.encoder.hidden_size)

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        texts = batch["contrastive"]
        if self.config.setting == "unsup":
            texts = texts.repeated(2)
        views = self.head(self.encoder.cls(texts)).unflatten(0, (-1, texts.views)).unbind(1)
        return {"contrastive": info_nce(*views, temperature=self.config.temperature)}

    def embed(self, batch: TextBatch) -> Tensor:
        states = self.encoder.cls(batch)
        return states if self.config.setting == "unsup" else self.head(states)
