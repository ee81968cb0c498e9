"""Views by synonym replacement, with which SimCSE compares dropout (simcse.md, section 2.5)."""

from harness.data.tokens import Template
from harness.plugin import Kit, TextBatch
from harness.views.synonyms import synonym_views

from . import SYNONYMS


class SynonymViews:
    """Two views of a sentence: itself, and itself with one word replaced."""

    def __init__(self, kit: Kit, template: Template, limit: int) -> None:
        """limit: the most word pieces of a sentence."""
        self.pieces = kit.artefact(SYNONYMS)
        self.template, self.limit = template, limit
        self.pad_id: int = kit.tokenizer.pad_token_id

    def __call__(self, texts: TextBatch) -> TextBatch:
        """One view an item -> two views an item."""
        return synonym_views(texts, self.pieces, self.template, self.limit, self.pad_id)
