"""The artefact of a method on a frozen encoder: the vectors of a whole corpus, made once."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from harness.choices import Pooling
from harness.plugin.stage import Artefact


def frozen_vectors(corpus: str, field: str, pooling: Pooling, max_length: int) -> Artefact:
    """The artefact `vectors` of a method on a frozen encoder: (items, columns, width) float32.

    field: the configuration field that names the corpus. The configuration must also have the
    fields `pooling` and `max_length`.
    """

    def build(kit: Any) -> Mapping[str, np.ndarray]:
        from harness.plugin.corpus_vectors import corpus_vectors  # with torch

        return {"vectors": corpus_vectors(kit, corpus, pooling, max_length)}

    return Artefact("vectors", (field, "pooling", "max_length"), build, embeds=False)
