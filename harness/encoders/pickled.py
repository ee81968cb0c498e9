"""Safetensors of a model whose weights are pickled, as those of released checkpoints of 2021."""

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.data.foreign_files import PICKLED, check_no_pointer
from harness.data.hub import model_folder
from harness.errors import UserError
from harness.files import written_whole

if TYPE_CHECKING:
    from torch import Tensor

SAFE = "model.safetensors"


def convert(name: str) -> Path:
    """Write the pickled weights of a model as safetensors beside them; the path of the new file.

    name: as on the Hub, or a folder; weights may be in parts. The file is read with torch's
    `weights_only`, so no code that it names runs. Raises UserError for a model that has safetensors
    or no pickled weights, and for a file that holds more than tensors.
    """
    folder = model_folder(name, pickled=True)
    if present := sorted(folder.glob("*.safetensors")):
        raise UserError(f'model "{name}": {present[0]} is there; nothing is to be converted')
    parts = sorted(folder.glob(PICKLED))
    if not parts:
        raise UserError(f'model "{name}": {folder} has no {PICKLED}; nothing can be converted')
    from safetensors.torch import save_file  # a wrong name is answered without torch

    weights: dict[str, Tensor] = {}
    for path in parts:
        weights |= _tensors(path)
    try:
        with written_whole(folder / SAFE, replace=False) as new:
            save_file(weights, new, {"format": "pt"})
    except OSError as error:
        raise UserError(f"{folder / SAFE} cannot be written: {error.strerror}") from None
    return folder / SAFE


def _tensors(path: Path) -> "dict[str, Tensor]":
    """The tensors of a pickled file; those that share memory are copied."""
    import torch

    check_no_pointer(path, "")
    try:
        content: Any = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        first = str(error).replace("\n", " ").partition(". ")[0]
        raise UserError(
            f"{path} holds more than tensors, and reading it could run code ({first[:200]}): it is "
            f"not converted"
        ) from None
    except (OSError, EOFError, RuntimeError, ValueError) as error:
        raise UserError(f"{path} cannot be read: {str(error)[:200]}") from None
    if not isinstance(content, Mapping) or not content:
        raise UserError(f"{path} has no names of tensors, but {type(content).__name__}")
    for name, value in content.items():
        if not isinstance(name, str) or not isinstance(value, torch.Tensor):
            raise UserError(f"{path}: {name!r} is {type(value).__name__} and no tensor")
    return {name: value.contiguous().clone() for name, value in content.items()}
