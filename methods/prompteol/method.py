"""The computations of PromptEOL; `__init__.py` declares the method."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from harness import plugin
from harness.choices import SENTENCE
from harness.data.tokens import Template, piece_ids
from harness.encoders.backbone import last_positions
from harness.losses.info_nce import info_nce
from harness.plugin import Kit, Stage, TextBatch

from . import Config, Declaration


class Method(Declaration, plugin.Method[Config]):
    """The encoder, or low-rank changes of it, train on triplets, or nothing does."""

    @classmethod
    def training_template(cls, config: Config, tokenizer: Any) -> Template:
        """The prompt in word pieces, behind what the tokenizer puts in front of a text.

        The pieces around the sentence are those of a running text (prompteol.md, section 2).
        """
        before, after = config.template.split(SENTENCE)
        # A letter stands for the sentence. A space in front of it belongs to the sentence.
        text = tokenizer.backend_tokenizer.encode(f"{before}a{after}", add_special_tokens=False)
        pieces = [*zip(text.ids, text.offsets, strict=True)]
        begin = tuple(piece for piece, (_, stop) in pieces if stop <= len(before.rstrip()))
        end = tuple(piece for piece, (start, _) in pieces if start > len(before))
        bare, spaced = piece_ids(tokenizer, ["a", " a"])
        return Template(
            Template.plain(tokenizer).begin + begin,
            end,
            leading_space=bare != spaced == text.ids[len(begin) : len(text.ids) - len(end)],
        )

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.encoder = kit.encoder()

    @property
    def training_pieces(self) -> int:
        """The limit is for the bare sentence; the prompt comes on top."""
        return self.config.max_length

    def test_text(self, text: str) -> str:
        """As the released evaluation reads a sentence (prompteol.md, section 2)."""
        if not self.config.tidied or not text:
            return text
        text = text if text.endswith((".", "?", '"', "'")) else f"{text}."
        text = text.replace('"', "'")
        return f"{text[:-1]}." if text.endswith("?") else text

    def losses(self, batch: Mapping[str, TextBatch], stage: Stage) -> dict[str, Tensor]:
        texts = batch["contrastive"]
        columns = texts.split(self.embed(texts))  # (items, H) each
        return {"contrastive": info_nce(*columns, temperature=self.config.temperature)}

    def embed(self, batch: TextBatch) -> Tensor:
        return self.encoder.at(batch, last_positions(batch.attention_mask))
