"""A sentence-transformers model as it is: its own pooling, normalisation, prompt and length; evaluation only.

What its folder says is done by the sentence-transformers library; sentences are batched and evaluated as any other
method's. `--encoder` names the folder or the Hub's model.
"""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import Field
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Transformer
from tokenizers.normalizers import Lowercase, Normalizer, Sequence
from torch import Tensor

from harness import plugin
from harness.data.hub import model_folder
from harness.data.tokens import Template, piece_ids
from harness.errors import UserError, reason
from harness.plugin import Kit, TextBatch

MODULES = "modules.json"
LIBRARY, TORCH = "sentence_transformers.", "torch."
ACTIVATION = "activation_function"


class Config(plugin.MethodConfig):
    """Nothing but the model decides."""

    encoder: str = Field(
        "sentence-transformers/all-MiniLM-L6-v2",
        description="folder or Hub name with a modules.json",
    )
    setting: Literal["unsup"] = "unsup"


class Method(plugin.Method[Config]):
    """Nothing trains."""

    @classmethod
    def files(cls, config: Config) -> list[Path]:
        """Those of the modules behind the encoder, which `model_digest` does not see."""
        folder = model_folder(config.encoder)
        return sorted(
            path for path in folder.glob("*/*") if path.suffix in (".json", ".safetensors", ".bin")
        )

    def __init__(self, config: Config, kit: Kit) -> None:
        super().__init__(config, kit)
        model = _load(config.encoder)
        self.encoder: Any = model
        if model[0].do_lower_case:
            backend = self.tokenizer.backend_tokenizer
            before: list[Normalizer] = [
                Lowercase(),
                *([backend.normalizer] if backend.normalizer else []),
            ]
            backend.normalizer = Sequence(before)
        prompt = model.prompts.get(model.default_prompt_name) or ""
        whole, pieces = piece_ids(self.tokenizer, [prompt, prompt.removesuffix(" ")])
        self.prompt_length = len(self.template.begin) + len(whole) if prompt else 0
        """Positions that pooling may leave out, as the library counts them"""
        begin = (*self.template.begin, *pieces)
        self.template = Template(begin, self.template.end, leading_space=prompt.endswith(" "))

    @property
    def longest(self) -> int:
        """The folder's length, but no more than there are positions: RoBERTa's begin behind its padding_idx."""
        model = self.encoder[0].model
        padding = getattr(model.embeddings, "padding_idx", None)
        first = 0 if padding is None else int(padding) + 1
        return min(
            int(self.encoder.max_seq_length), int(model.config.max_position_embeddings) - first
        )

    def embed(self, batch: TextBatch) -> Tensor:
        features = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask}
        prompt = {"prompt_length": self.prompt_length} if self.prompt_length else {}
        vectors: Tensor = self.encoder(features | prompt)["sentence_embedding"]
        return vectors[:, : self.encoder.truncate_dim]


def _load(name: str) -> SentenceTransformer:
    """A plain encoder gets mean pooling, as the library has it. Raises UserError when the folder is damaged, does not
    begin with a transformer, or asks for code of its own."""
    folder = model_folder(name)
    logging.getLogger("sentence_transformers").setLevel(
        logging.ERROR
    )  # it comments on every default
    try:
        for code in _foreign(folder):
            raise UserError(f'"{name}" asks for code that is not the library\'s ({code})')
        model = SentenceTransformer(
            str(folder), device="cpu", local_files_only=True, model_kwargs={"use_safetensors": True}
        )
        if not isinstance(model[0], Transformer):
            raise UserError(
                f'"{name}" is no transformer: its first module is {type(model[0]).__name__}'
            )
    except UserError:
        raise
    except Exception as error:  # a damaged folder raises whatever the library stumbles over
        why = reason(error).splitlines()[0]
        raise UserError(f'"{name}" cannot be loaded by sentence-transformers: {why}') from None
    return model


def _foreign(folder: Path) -> Iterator[str]:
    """Modules and activation functions from elsewhere. For the latter the library would take another function."""
    modules = (
        json.loads((folder / MODULES).read_text(encoding="utf-8"))
        if (folder / MODULES).exists()
        else []
    )
    for module in modules:
        if not module["type"].startswith(LIBRARY):
            yield module["type"]
        config = folder / module["path"] / "config.json"
        activation = (
            json.loads(config.read_text(encoding="utf-8")).get(ACTIVATION, TORCH)
            if config.exists()
            else TORCH
        )
        if not activation.startswith(TORCH):
            yield activation
