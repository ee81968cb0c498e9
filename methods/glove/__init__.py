"""GloVe: the mean of a sentence's word vectors, read from a file; evaluation only.

Pennington, Socher and Manning, EMNLP 2014, averaged as in Reimers and Gurevych 2019;
plain_encoders.md, section 2.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from torch import Tensor

from harness import plugin
from harness.errors import UserError
from harness.modules.vector_table import VectorTable
from harness.plugin import Artefact, Kit, TextBatch

from .words import NO_WORD, read_vectors


class Config(plugin.MethodConfig):
    """The paper's file is said to be Common Crawl 840B with 300 dimensions.

    See plain_encoders.md, section 2.
    """

    setting: Literal["unsup"] = "unsup"
    encoder: Literal["glove"] = "glove"
    vectors: Path | None = Field(
        None, description="file of word vectors: a word and its numbers a line"
    )
    lowercase: bool = Field(False, description="look up the sentences' words in lower case")


@dataclass(frozen=True)
class WordTokenizer:
    """What the harness needs of a tokenizer: words instead of pieces, and no special tokens."""

    backend_tokenizer: Tokenizer
    pad_token_id: int = 0
    cls_token_id: int | None = None
    sep_token_id: int | None = None


class Method(plugin.Method[Config]):
    """There is no encoder: whitespace tokens are looked up, and unknown ones are skipped.

    The vector of a sentence without a known word is 0.
    """

    @classmethod
    def models(cls, config: Config) -> list[str]:
        return []

    @classmethod
    def files(cls, config: Config) -> list[Path]:
        if config.vectors is None:
            raise UserError(
                "glove has no word vectors: name a file of them, for example "
                '"--set vectors=FILE.txt"'
            )
        if not config.vectors.is_file():
            raise UserError(f"glove: there is no file of word vectors {config.vectors}")
        return [config.vectors]

    @classmethod
    def artefacts(cls, config: Config) -> list[Artefact]:
        # No fields: the file itself is part of the artefact's identity, through `files`.
        return [Artefact("words", (), lambda _: read_vectors(cls.files(config)[0]))]

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        self.vectors = VectorTable(kit.artefact("words")["vectors"], kit.device)

    def load_tokenizer(self, kit: Kit) -> WordTokenizer:
        words = kit.artefact("words")["words"].tobytes().decode().split("\n")
        numbers = {word: number for number, word in enumerate(words)}
        tokenizer = Tokenizer(models.WordLevel(numbers, unk_token=NO_WORD))
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        if self.config.lowercase:
            tokenizer.normalizer = normalizers.Lowercase()
        return WordTokenizer(tokenizer)

    @property
    def longest(self) -> int:
        return 2**31  # no positions, so no limit

    def embed(self, batch: TextBatch) -> Tensor:
        # Number 0 is the unknown word and the padding, and its vector is 0.
        known = (batch.input_ids > 0).sum(dim=1, keepdim=True)
        return self.vectors(batch.input_ids).sum(dim=1) / known.clamp(min=1)
