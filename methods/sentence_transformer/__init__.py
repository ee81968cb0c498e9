"""A sentence-transformers model as it is, with its own pooling and prompt; evaluation only.

The sentence-transformers library does what the model's folder says: pooling, normalisation, prompt
and length. The harness batches and evaluates as for any other method. `--encoder` names the folder
or the Hub's model.
"""

from collections.abc import Collection
from pathlib import Path
from typing import Literal

from pydantic import Field

from harness import plugin
from harness.data.hub import MODEL_FILES, model_folder


class Config(plugin.MethodConfig):
    """The model alone decides, so there are no hyperparameters."""

    encoder: str = Field(
        "sentence-transformers/all-MiniLM-L6-v2",
        description="folder or Hub name with a modules.json",
    )
    setting: Literal["unsup"] = "unsup"

    @property
    def unused(self) -> Collection[str]:
        # The folder says what stands for a sentence.
        return {"decoder_pooling", "decoder_attention"}

    @property
    def ends_sentences(self) -> bool:
        return False  # the library's tokenizer does that where it is wanted


class Declaration(plugin.Declaration[Config]):
    """The files of the modules behind the encoder."""

    @classmethod
    def files(cls, config: Config) -> list[Path]:
        """Those of the modules behind the encoder, which `model_digest` does not see."""
        folder = model_folder(config.encoder)
        kinds = (*MODEL_FILES, "*.bin")
        return sorted({path for kind in kinds for path in folder.glob(f"*/**/{kind}")})
