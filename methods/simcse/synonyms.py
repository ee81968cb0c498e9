"""Views by synonym replacement, with which SimCSE compares dropout (simcse.md, section 2.5)."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from harness.data.tokens import Template
from harness.plugin import Artefact, Kit, TextBatch
from harness.views.synonyms import synonym_pieces, synonym_views

ARTEFACT = "synonyms"


def synonym_artefact(corpus: str, thesaurus: Path) -> Artefact:
    """The sentences of a corpus with one word of each replaced, made once for all trials."""

    def build(kit: Kit) -> Mapping[str, np.ndarray]:
        return synonym_pieces(corpus, thesaurus, kit.tokenizer)

    # The file itself is part of the artefact's identity, through `Method.files`.
    return Artefact(ARTEFACT, ("sentences",), build)


class SynonymViews:
    """Two views of a sentence: itself, and itself with one word replaced."""

    def __init__(self, kit: Kit, template: Template, limit: int) -> None:
        """limit: the most word pieces of a sentence."""
        self.pieces = kit.artefact(ARTEFACT)
        self.template, self.limit = template, limit
        self.pad_id: int = kit.tokenizer.pad_token_id

    def __call__(self, texts: TextBatch) -> TextBatch:
        """One view an item -> two views an item."""
        return synonym_views(texts, self.pieces, self.template, self.limit, self.pad_id)
