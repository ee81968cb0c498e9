"""GloVe: the mean of a sentence's word vectors, read from a file; evaluation only.

Pennington, Socher and Manning, EMNLP 2014, averaged as in Reimers and Gurevych 2019;
plain_encoders.md, section 2.
"""

from pathlib import Path
from typing import Literal

from pydantic import Field

from harness import plugin
from harness.errors import UserError
from harness.plugin import Artefact

from .words import read_vectors


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


class Declaration(plugin.Declaration[Config]):
    """The file of word vectors, and no model."""

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
