"""GloVe: the mean of a sentence's word vectors, read from a file; evaluation only.

Pennington, Socher and Manning, EMNLP 2014, averaged as in Reimers and Gurevych 2019; plain_encoders.md, section 2.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from torch import Tensor

from harness import plugin
from harness.errors import UserError
from harness.modules.vector_table import VectorTable
from harness.plugin import Artefact, Kit, TextBatch

from .words import NO_WORD, read_vectors


class Config(plugin.MethodConfig):
    """plain_encoders.md, section 2: the paper's file is said to be Common Crawl 840B, 300 dimensions."""

    setting: Literal["unsup"] = "unsup"
    encoder: Literal["glove"] = "glove"
    vectors: Path | None = Field(
        None, description="file of word vectors: a word and its numbers a line"
    )
    lowercase: bool = Field(False, description="look up the sentences' words in lower case")


@dataclass(frozen=True)
class WordTokenizer:
    """Words instead of word pieces, and no special tokens."""

    backend_tokenizer: Tokenizer
    pad_token_id: int = 0
    cls_token_id: int | None = None
    sep_token_id: int | None = None


class Method(plugin.Method[Config]):
    """No encoder: whitespace tokens are looked up, unknown ones skipped; a sentence without a known word is 0."""

    @classmethod
    def models(cls, config: Config) -> list[str]:
        return []

    @classmethod
    def files(cls, config: Config) -> list[Path]:
        if config.vectors is None:
            raise UserError(
                'glove has no word vectors: name a file of them, for example "--set vectors=FILE.txt"'
            )
        if not config.vectors.is_file():
            raise UserError(f"glove: there is no file of word vectors {config.vectors}")
        return [config.vectors]

    @classmethod
    def artefacts(cls, config: Config) -> list[Artefact]:
        return [Artefact("words", (), lambda _: read_vectors(cls.files(config)[0]))]

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.vectors = VectorTable(kit.artefact("words")["vectors"], kit.device)

    def load_tokenizer(self, kit: Kit) -> Any:
        words = kit.artefact("words")["words"].tobytes().decode().split("\n")
        numbers = {word: number for number, word in enumerate(words)}
        tokenizer = Tokenizer(models.WordLevel(numbers, unk_token=NO_WORD))
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        if self.config.lowercase:
            tokenizer.normalizer = normalizers.Lowercase()
        return WordTokenizer(tokenizer)

    @property
    def longest(self) -> int:
        return 2**31

    def embed(self, batch: TextBatch) -> Tensor:
        known = (batch.input_ids > 0).sum(dim=1, keepdim=True)
        return self.vectors(batch.input_ids).sum(dim=1) / known.clamp(min=1)
