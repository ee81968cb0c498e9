"""The artefact of corruptions made before training, one per text and view, for all trials.

D2CSE allows for them in a footnote (d2cse.md, section 1.4).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from harness.plugin.replaced_tokens import CORRUPTIONS, ReplacedTokenConfig
from harness.plugin.stage import Artefact

if TYPE_CHECKING:
    import numpy as np


def corruption_artefacts(config: ReplacedTokenConfig) -> list[Artefact]:
    """The artefact of a configuration that asks for static corruptions; otherwise none."""
    fields = (
        "setting", "sentences", "triplets", "max_length", "masking_ratio", "generator",
        "generator_eval", "replace_only_masked",
    )  # fmt: skip
    if not config.static_corruption:
        return []

    def build(kit: Any) -> "Mapping[str, np.ndarray]":
        from harness.plugin.sentence_editor import corruptions  # with torch

        return corruptions(config, kit)

    return [Artefact(CORRUPTIONS, fields, build, embeds=False)]
