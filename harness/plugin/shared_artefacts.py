"""The artefacts that several methods declare. What computes them is imported when one is built."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from harness.choices import Pooling
from harness.plugin.artefact import Artefact
from harness.plugin.replaced_tokens import CORRUPTIONS, ReplacedTokenConfig


def frozen_vectors(corpus: str, field: str, pooling: Pooling, max_length: int) -> Artefact:
    """The artefact `vectors` of a method on a frozen encoder: (items, columns, width) float32.

    field: the configuration field that names the corpus. The configuration must also have the
    fields `pooling` and `max_length`.
    """

    def build(kit: Any) -> Mapping[str, np.ndarray]:
        from harness.plugin.frozen_vectors import corpus_vectors

        return {"vectors": corpus_vectors(kit, corpus, pooling, max_length)}

    return Artefact("vectors", (field, "pooling", "max_length"), build, embeds=False)


def corruption_artefacts(config: ReplacedTokenConfig) -> list[Artefact]:
    """The artefact of a configuration that asks for static corruptions; otherwise none."""
    fields = (
        "setting", "sentences", "triplets", "max_length", "masking_ratio", "generator",
        "generator_eval", "replace_only_masked",
    )  # fmt: skip
    if not config.static_corruption:
        return []

    def build(kit: Any) -> Mapping[str, np.ndarray]:
        from harness.plugin.static_corruption import corruptions

        return corruptions(config, kit)

    return [Artefact(CORRUPTIONS, fields, build, embeds=False)]
