"""SimCSE: contrastive learning with dropout views (unsupervised) or NLI triplets (supervised).

Gao, Yao and Chen, EMNLP 2021; simcse.md; semisupervised.md.
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import Field, FilePath, model_validator

from harness import plugin
from harness.choices import HeadName
from harness.errors import UserError
from harness.plugin import Artefact, Stage

SYNONYMS = "synonyms"
"""Name of the artefact with one word of each sentence replaced (simcse.md, section 2.5)"""


class Config(plugin.SemiSupervisedConfig):
    """simcse.md, section 2.3; the field defaults are those of unsupervised BERT base."""

    head: HeadName = Field("tanh", description="of training; batchnorm is DiffCSE's")
    masked_language_weight: float = Field(
        0.0, ge=0, description="of an auxiliary masked-LM loss; the paper's is 0.1"
    )
    masking_ratio: float = Field(0.15, ge=0, le=1, description="of the masked-LM loss")
    hard_negative_weight: float = Field(
        0.0, description="log weight of an anchor's own hard negative (supervised)"
    )
    synonyms: FilePath | None = Field(
        None, description="thesaurus file: one word of view 2 is replaced by a synonym"
    )

    published: ClassVar = {
        ("unsup", "bert-large-uncased"): {"learning_rate": 1e-5},
        ("unsup", "roberta-base"): {"learning_rate": 1e-5, "batch_size": 512},
        ("unsup", "roberta-large"): {"learning_rate": 3e-5, "batch_size": 512},
        ("semisup", "bert-large-uncased"): {"learning_rate": 1e-5},
        ("semisup", "roberta-base"): {"learning_rate": 1e-5, "batch_size": 512},
        ("semisup", "roberta-large"): {"learning_rate": 3e-5, "batch_size": 512},
        ("sup", "*"): {"learning_rate": 5e-5, "batch_size": 512, "epochs": 3},
        ("sup", "bert-large-uncased"): {"learning_rate": 1e-5},
        ("sup", "roberta-large"): {"learning_rate": 1e-5},
    }

    @property
    def unused(self) -> Collection[str]:
        unused = {*super().unused}
        if not self.masked_language_weight:
            unused.add("masking_ratio")
        if self.setting != "sup":
            unused.add("hard_negative_weight")
        return unused

    @model_validator(mode="after")
    def _synonyms_need_sentences(self) -> Self:
        if self.synonyms and self.setting == "sup":
            raise UserError(
                "simcse: synonyms make a second view of unlabelled sentences; "
                "the sup setting has triplets"
            )
        return self


class Declaration(plugin.Declaration[Config]):
    """The corpora, artefacts and stages of the method."""

    @classmethod
    def corpora(cls, config: Config) -> dict[str, str]:
        return config.corpora()

    @classmethod
    def files(cls, config: Config) -> list[Path]:
        return [config.synonyms] if config.synonyms else []

    @classmethod
    def artefacts(cls, config: Config) -> list[Artefact]:
        if config.synonyms is None:
            return []
        corpus, thesaurus = config.sentences, config.synonyms

        def build(kit: Any) -> Mapping[str, np.ndarray]:
            from harness.views.synonyms import synonym_pieces  # with torch

            return synonym_pieces(corpus, thesaurus, kit.tokenizer)

        # The file itself is part of the artefact's identity, through `files`.
        return [Artefact(SYNONYMS, ("sentences",), build)]

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        losses = {"contrastive": 1.0}
        if config.masked_language_weight:
            losses["masked_language"] = config.masked_language_weight
        # Both count what was drawn, for which the CPU waits.
        waits = bool(config.masked_language_weight) or config.synonyms
        stage = config.stage("contrastive", losses=losses, capturable=not waits)
        return config.stages_around(stage)
