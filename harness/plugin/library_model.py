"""Loads a folder of sentence-transformers without running code of its own."""

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.data.foreign_files import foreign_settings, instead_of_weights
from harness.data.hub import LARGEST_CONFIG, MODULES_FILE, model_folder, model_shape
from harness.errors import UserError, explained, extra
from harness.plugin.rebuilt import is_rebuilt, rebuilt

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

_CLASS = re.compile(r"sentence_transformers(\.\w+)*\.[A-Z]\w*")
"""A class of the library; a module that it has imported begins with a small letter"""
_ACTIVATION = re.compile(r"torch\.nn\.(\w+\.)*[A-Z]\w*")


def load_model(name: str) -> "SentenceTransformer":
    """The model of the library, on the CPU. A plain encoder gets mean pooling there.

    A method that harness has exported is built again by harness. Raises UserError when the folder
    is damaged, does not begin with a transformer, or asks for code of its own, and when the library
    is not installed.
    """
    # It takes seconds to import, and this module is imported wherever all methods are listed.
    with extra("sentence-transformers", "a folder of sentence-transformers"):
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.sentence_transformer.modules import Transformer

    folder = model_folder(name)
    # It prints a warning about every default that it takes.
    logging.getLogger("sentence_transformers").setLevel(logging.ERROR)
    with explained(f'"{name}" cannot be loaded by sentence-transformers: '):
        if is_rebuilt(folder):
            return rebuilt(folder)
        for code in _foreign_code(folder):
            raise UserError(f'"{name}" asks for code that is not the library\'s ({code})')
        model_shape(name)  # it refuses what transformers would do without a word
        if not any(folder.glob("*.safetensors")):
            rest = instead_of_weights(folder)
            raise UserError(f'"{name}": {folder} has no weights (*.safetensors){rest}')
        model = SentenceTransformer(
            str(folder), device="cpu", local_files_only=True, model_kwargs={"use_safetensors": True}
        )
        if not isinstance(model[0], Transformer):
            kind = type(model[0]).__name__
            raise UserError(f'"{name}" is not a transformer: its first module is {kind}')
    return model


def _foreign_code(folder: Path) -> Iterator[str]:
    """Classes, activation functions, paths and settings that lead out of library and folder."""
    listed = folder / MODULES_FILE
    for module in _content(listed) if listed.exists() else []:
        if not _CLASS.fullmatch(module["type"]):
            yield module["type"]
        path = (folder / module["path"]).resolve()
        if not path.is_relative_to(folder.resolve()):
            yield module["path"]
        if module["type"].endswith(".Transformer") and path != folder.resolve():
            raise UserError(
                f"the encoder of {folder} lies in {module['path']}: move its files up into "
                f'{folder} and set that "path" in {MODULES_FILE} to ""; or name {path}, which '
                f"has the encoder without the modules behind it"
            )
    for path in sorted(folder.rglob("*.json")):
        # Vocabularies are large, and have no settings.
        if path.stat().st_size <= LARGEST_CONFIG:
            yield from _foreign_names(_content(path))


def _foreign_names(content: Any) -> Iterator[str]:
    """Names in a configuration that are not of the library or of torch.

    In the place of such an activation function, the library would take another one.
    """
    yield from foreign_settings(content)
    if not isinstance(content, dict):
        return
    if not _ACTIVATION.fullmatch(activation := content.get("activation_function", "torch.nn.Tanh")):
        # Those of transformers, in the configuration of a language model, have short names.
        yield from [activation] if "." in activation else []
    kinds = content.get("types")  # of the modules in a router
    names = [*kinds.values()] if isinstance(kinds, dict) else []
    named = content.get("tokenizer_class")  # of a bag of words
    names += [named] if isinstance(named, str) and "." in named else []
    yield from (str(each) for each in names if not _CLASS.fullmatch(str(each)))


def _content(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
