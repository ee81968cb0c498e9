"""A pretrained encoder as it is: [CLS], mean, first-last or last-two pooling; evaluation only.

plain_encoders.md, section 1. Section 3 has the poolings of released checkpoints.
"""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from pydantic import Field

from harness import plugin
from harness.choices import EncoderPooling
from harness.errors import UserError
from harness.plugin import Artefact

HEADS = {"pooler": "pooler.dense", "prompts-pooler": "mlp.dense"}
"""Pooling -> the layer of the checkpoint behind the state of [CLS]"""
PROMPTS = dict.fromkeys(("prompts", "prompts-pooler"), "prefix_encoder.embedding.weight")
"""Pooling -> the prompts of the checkpoint, (length, 2 * layers * H)"""
PARTS = "parts"
"""Name of the artefact with what the checkpoint has beside its encoder"""


class Config(plugin.MethodConfig):
    """plain_encoders.md, sections 1 and 3, has the poolings."""

    setting: Literal["unsup"] = "unsup"
    pooling: EncoderPooling = Field(
        "cls",
        description="which hidden states are averaged; pooler, mask, prompts and prompts-pooler "
        "are those of released checkpoints",
    )


class Declaration(plugin.Declaration[Config]):
    """The parts of a released checkpoint; nothing trains."""

    @classmethod
    def artefacts(cls, config: Config) -> list[Artefact]:
        endings = {}
        if config.pooling in HEADS:
            for part in ("weight", "bias"):
                endings[part] = f"{HEADS[config.pooling]}.{part}"
        if config.pooling in PROMPTS:
            endings["prompts"] = PROMPTS[config.pooling]

        def build(_: Any) -> Mapping[str, np.ndarray]:
            from harness.encoders.pretrained import checkpoint_tensor  # with torch

            arrays, model = {}, config.encoder
            for part, ending in endings.items():
                tensor = checkpoint_tensor(model, ending)
                if tensor is None:
                    raise UserError(
                        f'model "{model}" has no tensor {ending}, which pooling={config.pooling} '
                        f"reads; it is not a checkpoint of this kind"
                    )
                arrays[part] = tensor.float().numpy()
            return arrays

        return [Artefact(PARTS, ("pooling",), build)] if endings else []
