"""The table of contents of a model's weights: names, shapes and types, read without the weights."""

import functools
import math
from collections.abc import Iterator

from safetensors import SafetensorError, safe_open

from harness.data.foreign_files import check_no_pointer, instead_of_weights
from harness.data.hub import model_folder, model_shape
from harness.errors import UserError

_WORD_EMBEDDINGS = ("word_embeddings", "embed_tokens", "tok_embeddings", "wte", "embeddings")
"""Names of the table of word embeddings in the families, the clearest first"""
_BUFFERS = ("position_ids", ".attn.bias", ".attn.masked_bias", "rotary_emb.inv_freq")
"""Endings of the names of buffers, which old files of weights hold beside parameters"""


def tensors(name: str) -> Iterator[tuple[str, list[int], str]]:
    """The name, the shape and the type of each tensor in the files of a model.

    The Hub is not asked: a plan reads them. Raises UserError when the model is not here, and when
    it has no weights that can be read.
    """
    folder = model_folder(name, download=False)
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        rest = instead_of_weights(folder)
        raise UserError(f'model "{name}": {folder} has no weights (*.safetensors){rest}')
    for path in files:
        check_no_pointer(path, f'model "{name}": ')
        try:
            with safe_open(path, framework="np") as file:
                names = file.keys()  # the file itself cannot be iterated
                for key in names:
                    tensor = file.get_slice(key)
                    yield key, tensor.get_shape(), tensor.get_dtype()
        except (SafetensorError, OSError) as error:
            raise UserError(f'model "{name}": {path} cannot be read ({error})') from None


@functools.cache
def parameter_count(name: str) -> int:
    """The number of parameters of an encoder without a pooler and without heads.

    A file whose table of word embeddings has another name counts as a whole. Raises UserError as
    `tensors`.
    """
    shapes = {key: shape for key, shape, _ in tensors(name) if not key.endswith(_BUFFERS)}
    root = _root(name, shapes)
    return sum(
        math.prod(shape)
        for key, shape in shapes.items()
        if key.startswith(root) and not key.startswith(f"{root}pooler.")
    )


def stored_in_bf16(name: str) -> bool:
    """Whether all weights of a model are stored in bf16. Raises UserError as above."""
    return {kind for _, _, kind in tensors(name)} == {"BF16"}


def _root(name: str, shapes: dict[str, list[int]]) -> str:
    """The prefix of the names of the encoder itself: `bert.` in a model with a head, or ""."""
    words = int(model_shape(name, download=False).get("vocab_size", 0))
    for part in _WORD_EMBEDDINGS:
        for key, shape in shapes.items():
            first, *others = key.split(".")
            if shape[:1] == [words] and part in (first, *others):
                return "" if first in _WORD_EMBEDDINGS else f"{first}."
    return ""
