"""Whether a pretrained model can be loaded, found without reading its weights."""

import torch
import transformers
from torch import nn

from harness.data.hub import model_folder, model_shape
from harness.data.weight_contents import tensors
from harness.encoders.families import check_text_encoder
from harness.errors import UserError, explained


def check_loadable(name: str) -> None:
    """Compare the configuration of a model with the table of contents of its weights.

    It takes about a tenth of a second. Raises UserError when transformers has no such model, when
    there are no weights, and when their shapes differ.
    """
    model_shape(name)
    shapes = {key: shape for key, shape, _ in tensors(name)}
    _compare(name, _without_memory(name), shapes)


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
