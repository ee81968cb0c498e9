"""A sentence-transformers model as it is: its own pooling, normalisation, prompt and length; evaluation only.

What its folder says is done by the sentence-transformers library; sentences are batched and evaluated as any other
method's. `--encoder` names the folder or the Hub's model.
"""

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import Field
from sentence_transformers import SentenceTransformer
from tokenizers.normalizers import Lowercase, Normalizer, Sequence
from torch import Tensor

from harness import method
from harness.data.batching import TextBatch
from harness.data.hub import model_folder
from harness.data.tokens import Template, piece_ids
from harness.errors import UserError
from harness.kit import Kit

MODULES = "modules.json"
LIBRARY = "sentence_transformers."


class Config(method.MethodConfig):
    """Nothing but the model decides."""

    encoder: str = Field("sentence-transformers/all-MiniLM-L6-v2", description="folder or Hub name with a modules.json")
    setting: Literal["unsup"] = "unsup"


class Method(method.Method):
    """Nothing trains."""

    config_type = Config

    @classmethod
    def files(cls, config: Config) -> list[Path]:
        """Those of the modules behind the encoder, which `model_digest` does not see."""
        folder = model_folder(config.encoder)
        return sorted(path for path in folder.glob("*/*") if path.suffix in (".json", ".safetensors", ".bin"))

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        model = _load(config.encoder)
        self.encoder: Any = model
        if getattr(model[0], "do_lower_case", False):
            backend = self.tokenizer.backend_tokenizer
            before: list[Normalizer] = [Lowercase(), *([backend.normalizer] if backend.normalizer else [])]
            backend.normalizer = Sequence(before)
        prompt = model.prompts.get(model.default_prompt_name) or ""
        self.template = Template((*self.template.begin, *piece_ids(self.tokenizer, [prompt])[0]), self.template.end)

    @property
    def longest(self) -> int:
        return int(self.encoder.max_seq_length or self.encoder[0].model.config.max_position_embeddings)

    def embed(self, batch: TextBatch) -> Tensor:
        features = {
            "input_ids": batch.input_ids,
            "attention_mask": batch.attention_mask,
            "prompt_length": len(self.template.begin),
        }
        vectors: Tensor = self.encoder(features)["sentence_embedding"]
        return vectors


def _load(name: str) -> SentenceTransformer:
    """A plain encoder gets mean pooling, as the library has it. Raises UserError when the folder is damaged, or asks
    for code of its own."""
    folder = model_folder(name)
    try:
        modules = json.loads((folder / MODULES).read_text(encoding="utf-8")) if (folder / MODULES).exists() else []
        foreign = [module["type"] for module in modules if not module["type"].startswith(LIBRARY)]
        if foreign:
            raise UserError(f'"{name}": {MODULES} asks for code that is not the library\'s ({foreign[0]})')
        return SentenceTransformer(
            str(folder), device="cpu", local_files_only=True, model_kwargs={"use_safetensors": True}
        )
    except (OSError, ValueError, KeyError, TypeError, ImportError) as error:
        raise UserError(f'"{name}" cannot be loaded by sentence-transformers: {str(error).splitlines()[0]}') from None
