"""Load a sentence-transformers folder without running code of its own."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tokenizers.normalizers import Lowercase, Sequence
from transformers import PreTrainedTokenizerFast

from harness.data.hub import model_folder
from harness.errors import UserError, extra, reason
from harness.plugin.rebuilt import is_rebuilt, rebuilt

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

MODULES_FILE = "modules.json"
LIBRARY, TORCH = "sentence_transformers.", "torch."
"""Where the classes of modules and of activation functions may come from"""


def load_model(name: str) -> "SentenceTransformer":
    """The model of the library, on the CPU. A plain encoder gets mean pooling there.

    A method that harness has exported is built again by harness. Raises UserError when the folder
    is damaged, does not begin with a transformer, or asks for code of its own, and when the library
    is not installed.
    """
    # It takes seconds to import, and this module is imported wherever all methods are listed.
    with extra("sentence-transformers", "the method sentence_transformer"):
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.sentence_transformer.modules import Transformer

    folder = model_folder(name)
    # It prints a warning about every default that it takes.
    logging.getLogger("sentence_transformers").setLevel(logging.ERROR)
    try:
        if is_rebuilt(folder):
            return rebuilt(folder)
        for code in _foreign_code(folder):
            raise UserError(f'"{name}" asks for code that is not the library\'s ({code})')
        model = SentenceTransformer(
            str(folder), device="cpu", local_files_only=True, model_kwargs={"use_safetensors": True}
        )
        if not isinstance(model[0], Transformer):
            kind = type(model[0]).__name__
            raise UserError(f'"{name}" is not a transformer: its first module is {kind}')
    except UserError:
        raise
    except Exception as error:  # a damaged folder can raise any exception
        why = reason(error).splitlines()[0]
        raise UserError(f'"{name}" cannot be loaded by sentence-transformers: {why}') from None
    return model


def add_lower_case(tokenizer: PreTrainedTokenizerFast) -> None:
    """Let a tokenizer read lower case, as the library does where the folder asks for it."""
    backend = tokenizer.backend_tokenizer
    own = [backend.normalizer] if backend.normalizer else []
    backend.normalizer = Sequence([Lowercase(), *own])


def _foreign_code(folder: Path) -> Iterator[str]:
    """Modules and activation functions that come from elsewhere.

    In the place of such an activation function, the library would take another one.
    """
    listed = folder / MODULES_FILE
    modules = json.loads(listed.read_text(encoding="utf-8")) if listed.exists() else []
    for module in modules:
        if not module["type"].startswith(LIBRARY):
            yield module["type"]
        config = folder / module["path"] / "config.json"
        settings = json.loads(config.read_text(encoding="utf-8")) if config.exists() else {}
        activation = settings.get("activation_function", TORCH)
        if not activation.startswith(TORCH):
            yield activation
