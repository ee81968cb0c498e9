"""SimCSE: contrastive learning with dropout views (unsupervised) or NLI triplets (supervised).

Gao, Yao and Chen, EMNLP 2021; simcse.md; semisupervised.md.
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import ClassVar, Self

from pydantic import Field, FilePath, model_validator
from torch import Tensor

from harness import plugin
from harness.errors import UserError
from harness.losses.info_nce import info_nce
from harness.losses.masked_language import masked_pass_loss
from harness.losses.nli import PairClassifier, triplet_loss
from harness.modules.heads import HeadName, named_head
from harness.plugin import Artefact, Kit, Stage, TextBatch
from harness.views.masking import Masker

from .synonyms import SynonymViews, synonym_artefact


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
        return {*super().unused, *([] if self.masked_language_weight else ["masking_ratio"])}

    @model_validator(mode="after")
    def _synonyms_need_sentences(self) -> Self:
        if self.synonyms and self.setting == "sup":
            raise UserError(
                "simcse: synonyms make a second view of unlabelled sentences; "
                "the sup setting has triplets"
            )
        return self


class Method(plugin.Method[Config]):
    """The encoder trains in full under a fresh head.

    The head is dropped at test time, except in the sup setting.
    """

    @classmethod
    def corpora(cls, config: Config) -> dict[str, str]:
        return config.corpora()

    @classmethod
    def files(cls, config: Config) -> list[Path]:
        return [config.synonyms] if config.synonyms else []

    @classmethod
    def artefacts(cls, config: Config) -> list[Artefact]:
        return [synonym_artefact(config.sentences, config.synonyms)] if config.synonyms else []

    @classmethod
    def stages(cls, config: Config) -> list[Stage]:
        losses = {"contrastive": 1.0}
        if config.masked_language_weight:
            losses["masked_language"] = config.masked_language_weight
        return config.stages_around(config.stage("contrastive", losses=losses))

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.encoder = kit.encoder()
        width = self.encoder.hidden_size
        self.head = named_head(config.head, width)
        self.masker = Masker(self.tokenizer, config.masking_ratio)
        if config.masked_language_weight:
            self.vocabulary = kit.vocabulary_head()
        if config.setting == "semisup":
            self.classifier = PairClassifier(width, classes=2)
        self.synonym_views = (
            SynonymViews(kit, self.template, self.training_pieces) if config.synonyms else None
        )

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        found = {}
        if "contrastive" in batch:
            rows = self._rows(batch["contrastive"])
            found["contrastive"] = info_nce(  # simcse.md, sections 1.2 and 2.2
                *self._vectors(rows),
                temperature=self.config.temperature,
                hard_negative_weight=self.config.hard_negative_weight,
            )
            if "masked_language" in stage.losses:  # simcse.md, section 2.4
                found["masked_language"] = masked_pass_loss(
                    self.encoder, self.vocabulary, self.masker, rows
                )
        if "labelled" in batch:  # semisupervised.md, section 2
            vectors = self._vectors(batch["labelled"])
            found["classification"] = triplet_loss(self.classifier, *vectors)
        return found

    def embed(self, batch: TextBatch) -> Tensor:
        states = self.encoder.cls(batch)
        return self.head(states) if self.config.setting == "sup" else states

    def _rows(self, texts: TextBatch) -> TextBatch:
        """All rows of a batch: triplets, or two views of every sentence.

        The same sentence twice gives two views, because each row has its own dropout mask.
        """
        if self.config.setting == "sup":
            return texts
        return texts.repeated(2) if self.synonym_views is None else self.synonym_views(texts)

    def _vectors(self, rows: TextBatch) -> tuple[Tensor, ...]:
        """Training vectors of each view, (items, H)."""
        return rows.split(self.head(self.encoder.cls(rows)))
