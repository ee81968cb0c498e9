"""SimCSE: contrastive learning with dropout views (unsupervised) or NLI triplets (supervised).

Gao, Yao and Chen, EMNLP 2021; simcse.md; semisupervised.md.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, FilePath, model_validator
from torch import Tensor

from harness import plugin
from harness.errors import UserError
from harness.losses.info_nce import info_nce
from harness.losses.masked_language import masked_language_loss
from harness.losses.nli import PairClassifier, triplet_loss
from harness.modules.heads import BatchNormHead, TanhHead
from harness.plugin import Artefact, Kit, Setting, Stage, TextBatch
from harness.plugin.semisupervised import (
    CLASSIFICATION,
    CONTRASTIVE,
    LABELLED,
    SemiSupervisedConfig,
    corpora,
    schedule,
)
from harness.views.masking import Masker
from harness.views.synonyms import synonym_pieces, synonym_views

MASKED_LANGUAGE = "masked_language"


class Config(SemiSupervisedConfig):
    """Field defaults: unsupervised BERT base."""

    setting: Setting = "unsup"
    pooler: Literal["tanh", "batchnorm"] = Field(
        "tanh", description="training head; batchnorm is DiffCSE's"
    )
    masked_language_weight: float = Field(
        0.0, ge=0, description="of an auxiliary masked-LM loss; the paper's is 0.1"
    )
    masking_ratio: float = Field(0.15, ge=0, le=1)
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

    @model_validator(mode="after")
    def _synonyms_need_sentences(self) -> Self:
        if self.synonyms and self.setting == "sup":
            raise UserError(
                "simcse: synonyms make a second view of unlabelled sentences; the sup setting has triplets"
            )
        return self


class Method(plugin.Method[Config]):
    """The encoder trains in full under a fresh head; without supervised triplets the head is dropped at test time."""

    @classmethod
    def corpora(cls, config: Config) -> dict[str, str]:
        return corpora(config)

    @classmethod
    def files(cls, config: Config) -> list[Path]:
        return [config.synonyms] if config.synonyms else []

    @classmethod
    def artefacts(cls, config: Config) -> list[Artefact]:
        thesaurus = config.synonyms
        if thesaurus is None:
            return []

        def build(kit: Kit) -> Mapping[str, np.ndarray]:
            return synonym_pieces(config.sentences, thesaurus, kit.tokenizer)

        return [Artefact("synonyms", ("sentences",), build)]

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        weights = {CONTRASTIVE: 1.0}
        if config.masked_language_weight:
            weights[MASKED_LANGUAGE] = config.masked_language_weight
        return schedule(config, config.stage(CONTRASTIVE, losses=weights))

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.encoder = kit.encoder()
        width = self.encoder.hidden_size
        self.head = TanhHead(width) if config.pooler == "tanh" else BatchNormHead(width)
        self.masker = Masker(self.tokenizer, config.masking_ratio)
        if config.masked_language_weight:
            self.vocabulary = kit.vocabulary_head()
        if config.setting == "semisup":
            self.classifier = PairClassifier(width, classes=2)
        self.synonyms = kit.artefact("synonyms") if config.synonyms else None

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        found = {}
        if CONTRASTIVE in batch:
            rows, weight = self._rows(batch[CONTRASTIVE]), self.config.hard_negative_weight
            views = self._views(rows)
            found[CONTRASTIVE] = info_nce(
                *views, temperature=self.config.temperature, hard_negative_weight=weight
            )
            if MASKED_LANGUAGE in stage.losses:
                found[MASKED_LANGUAGE] = self._masked_language(rows)
        if LABELLED in batch:
            found[CLASSIFICATION] = triplet_loss(self.classifier, *self._views(batch[LABELLED]))
        return found

    def embed(self, batch: TextBatch) -> Tensor:
        states = self.encoder.cls(batch)
        return self.head(states) if self.config.setting == "sup" else states

    def _rows(self, texts: TextBatch) -> TextBatch:
        """All rows of a batch: triplets, or two views of every sentence."""
        if self.config.setting == "sup":
            return texts
        if self.synonyms is None:
            return texts.repeated(2)
        pad_id = self.tokenizer.pad_token_id
        return synonym_views(texts, self.synonyms, self.template, self.training_pieces, pad_id)

    def _views(self, rows: TextBatch) -> tuple[Tensor, ...]:
        """Training vectors of each view, (items, H)."""
        return rows.split(self.head(self.encoder.cls(rows)))

    def _masked_language(self, rows: TextBatch) -> Tensor:
        """On a masked copy: the contrastive pass sees whole sentences (the corrected code, after 2021-11-23)."""
        masked = self.masker(rows.input_ids)
        states = self.encoder(rows.replaced(masked.input_ids, rows.attention_mask))
        return masked_language_loss(self.vocabulary, states, rows.input_ids, masked.chosen)
