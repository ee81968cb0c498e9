"""The computations of SimCSE; `__init__.py` declares the method."""

from collections.abc import Mapping

from torch import Tensor

from harness import plugin
from harness.losses.info_nce import info_nce
from harness.losses.masked_language import masked_pass_loss
from harness.losses.nli import PairClassifier, triplet_loss
from harness.modules.heads import named_head
from harness.plugin import Kit, Stage, TextBatch
from harness.views.masking import Masker

from . import Config, Declaration
from .synonyms import SynonymViews


class Method(Declaration, plugin.Method[Config]):
    """The encoder trains in full under a fresh head.

    The head is dropped at test time, except in the sup setting.
    """

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
