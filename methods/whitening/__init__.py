"""BERT-whitening: frozen sentence vectors, mapped so that a corpus has mean 0 and covariance 1.

Su et al., arXiv 2103.15316; frozen_maps.md, section 2.
"""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from pydantic import Field

from harness import plugin
from harness.choices import Pooling
from harness.plugin import Artefact


class Config(plugin.MethodConfig):
    """frozen_maps.md, section 2, says where the values come from."""

    setting: Literal["unsup"] = "unsup"
    corpus: str = Field("nli-pairs", description="whose texts, all columns, are whitened")
    pooling: Pooling = Field("first-last", description="which hidden states are averaged")
    dimensions: int | None = Field(
        None, ge=1, description="kept, largest variance first; the papers' are 256 and 384"
    )
    max_length: int = Field(
        64, ge=4, le=512, description="tokens of a corpus text, special tokens included"
    )


class Declaration(plugin.Declaration[Config]):
    """The corpus, and the map that is made of it."""

    @classmethod
    def corpora(cls, config: Config) -> dict[str, str]:
        return {"corpus": config.corpus}

    @classmethod
    def artefacts(cls, config: Config) -> list[Artefact]:
        def build(kit: Any) -> Mapping[str, np.ndarray]:
            from .method import whitening  # with torch

            return whitening(config, kit)

        fields = ("corpus", "pooling", "max_length")
        # `dimensions` is not among them: the whole map is kept, and cut where it is used.
        return [Artefact("whitening", fields, build)]
