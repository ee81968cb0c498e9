"""Files of other libraries in the place of a model's, with a sentence about what would do."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.errors import UserError

_POINTER = b"version https://git-lfs"
PICKLED = "pytorch_model*.bin"
"""Files of weights that `harness convert` reads"""
_OTHER_WEIGHTS = {
    "tf_model*.h5": "weights of TensorFlow",
    "*.ckpt*": "a checkpoint of TensorFlow or Lightning",
    "flax_model*.msgpack": "weights of Flax",
    "*.gguf": "quantised weights of llama.cpp",
    "*.onnx": "a graph of ONNX",
    "onnx/*.onnx": "a graph of ONNX",
    "*.pt": "pickled weights of PyTorch",
    "*.pth": "pickled weights of PyTorch",
    "*.bin": "a binary file of another name",
}
"""Files that are not read -> what they have"""
_KERNEL_KEYS = re.compile(r"_?(attn|experts)_implementation(_internal)?")


def instead_of_config(folder: Path) -> str:
    """The rest of a sentence about a folder without config.json: what is there, what would do."""
    if not folder.is_dir():
        return "; there is no such folder"
    if (folder / "adapter_config.json").is_file():
        return f", and has {_adapter()}"
    inside = sorted(folder.glob("*/config.json"))
    transformers = [path.parent.name for path in inside if "Transformer" in path.parent.name]
    if transformers or len(inside) == 1:
        name = transformers[0] if transformers else inside[0].parent.name
        return f"; the encoder lies in {name}: name {folder / name}"
    names = sorted(path.name for path in folder.iterdir())
    if not names:
        return ", for it is empty"
    some = ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
    return f"; it has {some}. Name the folder that save_pretrained of transformers has written"


def instead_of_weights(folder: Path) -> str:
    """The rest of a sentence about a folder without safetensors: what is there, what would do."""
    if pickled := sorted(folder.glob(PICKLED)):
        names = pickled[0].name if len(pickled) == 1 else "pytorch_model-*.bin"
        if any(map(is_pointer, pickled)):
            return f"; {names} is {_pointer(pickled[0])}"
        return (
            f"; {names} is there, which is pickled and could run code. Make safetensors of it "
            f"without running any: harness convert {shlex.quote(str(folder))}"
        )
    if (folder / "adapter_config.json").is_file():
        return f"; it has {_adapter()}"
    for pattern, description in _OTHER_WEIGHTS.items():
        for path in sorted(folder.glob(pattern)):
            return (
                f"; {path.name} is there, {description}, which is not read: load it with its own "
                f"library, and write safetensors with save_pretrained of transformers"
            )
    return (
        "; download them, run harness convert MODEL where pickled ones are there, or save the "
        "model again with save_pretrained of transformers"
    )


def is_pointer(path: Path) -> bool:
    """Whether a file is what git has in the place of a large file (git-lfs)."""
    with path.open("rb") as file:
        return file.read(len(_POINTER)) == _POINTER


def check_no_pointer(path: Path, beginning: str) -> None:
    """Raise UserError for a file that stands for a large one. beginning: of the sentence."""
    if is_pointer(path):
        raise UserError(f"{beginning}{path.name} is {_pointer(path)}")


def check_no_adapter(folder: Path, beginning: str) -> None:
    """Raise UserError for low-rank changes, which transformers would add to a model elsewhere."""
    if (folder / "adapter_config.json").is_file():
        raise UserError(f"{beginning}{folder} has {_adapter()}")


def foreign_settings(content: Any, prefix: str = "") -> Iterator[str]:
    """Settings, at any depth of a JSON file, that make a library run code from elsewhere."""
    if isinstance(content, list):
        for each in content:
            yield from foreign_settings(each, prefix)
    if not isinstance(content, dict):
        return
    for name, value in content.items():
        where = f"{prefix}{name}"
        if name == "trust_remote_code" and value not in (False, None):
            yield f"{where} = {value}"
        elif _KERNEL_KEYS.fullmatch(name):
            values = value.values() if isinstance(value, dict) else [value]
            # As `kernels-community/flash-attn`, perhaps behind `paged|`.
            yield from (f"{where} = {each}" for each in values if "/" in str(each))
        else:
            yield from foreign_settings(value, f"{where}.")


def _pointer(path: Path) -> str:
    return f"a pointer of git-lfs and not the file itself: run `git lfs pull` in {path.parent}"


def _adapter() -> str:
    return (
        "an adapter (adapter_config.json of peft) for a model that is elsewhere: load both with "
        "peft, call merge_and_unload(), and write the result with save_pretrained"
    )
