"""SimCSE: contrastive learning with dropout views (unsupervised) or NLI triplets (supervised).

Gao, Yao and Chen, EMNLP 2021; baselines.md, sections 2 and 6.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, FilePath, model_validator
from torch import Tensor

from harness import method
from harness.data.batching import TextBatch
from harness.data.synonyms import synonym_pieces, synonym_views
from harness.encoders.heads import BatchNormHead, TanhHead
from harness.errors import UserError
from harness.kit import Kit
from harness.method import Artefact, Setting, Stage
from harness.objectives.infonce import info_nce
from harness.objectives.masking import Masker, masked_language_loss
from harness.objectives.nli import PairClassifier, triplet_loss
from harness.semisupervised import CLASSIFICATION, CONTRASTIVE, LABELLED, SemiSupervisedConfig, schedule


class Config(SemiSupervisedConfig):
    """Field defaults: unsupervised BERT base."""

    setting: Setting = "unsup"
    pooler: Literal["tanh", "batchnorm"] = Field("tanh", description="training head; batchnorm is DiffCSE's")
    masked_language_weight: float = Field(0.0, ge=0, description="of an auxiliary masked-LM loss; the paper's is 0.1")
    masking_ratio: float = Field(0.15, ge=0, le=1)
    hard_negative_weight: float = Field(0.0, description="log weight of an anchor's own hard negative (supervised)")
    synonyms: FilePath | None = Field(None, description="thesaurus file: one word of view 2 is replaced by a synonym")

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
            raise UserError("simcse: synonyms make a second view of unlabelled sentences; the sup setting has triplets")
        return self


class Method(method.Method):
    """The encoder trains in full under a fresh head; without supervised triplets the head is dropped at test time."""

    config_type = Config

    @classmethod
    def data(cls, config: Config) -> dict[str, str]:
        unlabelled, labelled = {CONTRASTIVE: config.sentences}, {LABELLED: config.triplets}
        if config.setting == "sup":
            return {CONTRASTIVE: config.triplets}
        return unlabelled | labelled if config.setting == "semisup" else unlabelled

    @classmethod
    def files(cls, config: Config) -> list[Path]:
        return [config.synonyms] if config.synonyms else []

    @classmethod
    def artefacts(cls, config: Config) -> list[Artefact]:
        return [Artefact("synonyms", ("sentences",), _synonyms)] if config.synonyms else []

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        masked = {"masked_language": config.masked_language_weight} if config.masked_language_weight else {}
        contrastive = Stage(
            name=CONTRASTIVE,
            trains={"*": "learning_rate"},
            streams={CONTRASTIVE: config.batch_size},
            losses={CONTRASTIVE: 1.0, **masked},
            epochs=config.epochs,
            max_steps=config.max_steps,
        )
        return schedule(config, contrastive)

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
            found[CONTRASTIVE] = info_nce(*views, temperature=self.config.temperature, hard_negative_weight=weight)
            if "masked_language" in stage.losses:
                found["masked_language"] = self._masked_language(rows)
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
        vectors: Tensor = self.head(self.encoder.cls(rows))
        views: tuple[Tensor, ...] = vectors.unflatten(0, (-1, rows.views)).unbind(1)  # type: ignore[no-untyped-call]
        return views

    def _masked_language(self, rows: TextBatch) -> Tensor:
        """On a masked copy: the contrastive pass sees whole sentences (the corrected code, after 2021-11-23)."""
        masked = self.masker(rows.input_ids)
        states = self.encoder(rows.replaced(masked.input_ids, rows.attention_mask))
        return masked_language_loss(self.vocabulary, states, rows.input_ids, masked.chosen)


def _synonyms(config: Config, kit: Kit) -> Mapping[str, np.ndarray]:
    assert config.synonyms is not None
    return synonym_pieces(config.sentences, config.synonyms, kit.tokenizer)
