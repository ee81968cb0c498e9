"""Whether a pretrained model can be loaded, found without reading its weights."""

import functools
from collections.abc import Iterator

import torch
import transformers
from safetensors import SafetensorError, safe_open
from torch import nn

from harness.data.hub import SIZES, model_folder, model_shape
from harness.data.model_contents import check_no_pointer, instead_of_weights
from harness.encoders.families import check_text_encoder
from harness.errors import UserError, explained


def check_loadable(name: str) -> None:
    """Compare the configuration of a model with the table of contents of its weights.

    It takes about a tenth of a second. Raises UserError when transformers has no such model, when
    there are no weights, and when their shapes differ.
    """
    model_shape(name)
    shapes = {key: shape for key, shape, _ in _tensors(name)}
    _compare(name, _without_memory(name), shapes)


@functools.cache
def parameter_count(name: str) -> int:
    """The number of parameters of an encoder without a pooler. Raises UserError as above."""
    named = _without_memory(name).named_parameters()
    return sum(value.numel() for path, value in named if not path.startswith("pooler."))


def common_sizes(name: str) -> dict[str, int]:
    """The sizes in a model's config.json, under the names that BERT has for them.

    Raises UserError when there is no such model.
    """
    with explained(f'model "{name}" cannot be loaded: '):
        config = transformers.AutoConfig.from_pretrained(
            model_folder(name, download=False), trust_remote_code=False
        )
    return {size: found for size in SIZES if (found := getattr(config, size, None)) is not None}


def stored_in_bf16(name: str) -> bool:
    """Whether all weights of a model are stored in bf16. Raises UserError as above."""
    return {kind for _, _, kind in _tensors(name)} == {"BF16"}


def _without_memory(name: str) -> nn.Module:
    """A model whose parameters have a shape and no memory.

    Raises UserError when transformers has no such text model.
    """
    transformers.logging.set_verbosity_error()
    with explained(f'model "{name}" cannot be loaded: '):
        config = transformers.AutoConfig.from_pretrained(
            model_folder(name), trust_remote_code=False
        )
        check_text_encoder(name, config)
        with torch.device("meta"):
            model: nn.Module = transformers.AutoModel.from_config(config, trust_remote_code=False)
    return model


def _tensors(name: str) -> Iterator[tuple[str, list[int], str]]:
    """The name, the shape and the type of each tensor in the files of a model."""
    folder = model_folder(name)
    found = sorted(folder.glob("*.safetensors"))
    if not found:
        rest = instead_of_weights(folder)
        raise UserError(f'model "{name}": {folder} has no weights (*.safetensors){rest}')
    for path in found:
        check_no_pointer(path, f'model "{name}": ')
        try:
            with safe_open(path, framework="pt") as file:
                names = file.keys()  # the file itself cannot be iterated
                for key in names:
                    tensor = file.get_slice(key)
                    yield key, tensor.get_shape(), tensor.get_dtype()
        except (SafetensorError, OSError) as error:
            raise UserError(f'model "{name}": {path} cannot be read ({error})') from None


def _compare(name: str, model: nn.Module, shapes: dict[str, list[int]]) -> None:
    """Raise UserError when a parameter has another shape in the file, or when none is there."""
    # A checkpoint of a whole model has the encoder under a name of its own, such as `bert.`.
    inner = {key.partition(".")[2]: shape for key, shape in shapes.items()}
    found = 0
    for parameter, value in model.named_parameters():
        stored = shapes.get(parameter) or inner.get(parameter)
        found += stored is not None
        if stored is not None and stored != list(value.shape):
            raise UserError(
                f'model "{name}": {parameter} has the shape {stored}, but config.json asks for '
                f"{list(value.shape)}"
            )
    if not found:  # what is missing of a few, the loader says; names differ between versions
        raise UserError(f'model "{name}": its weights are not those of a {type(model).__name__}')
