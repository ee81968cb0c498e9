"""Which parameters a stage trains, with which learning rate."""

import uuid
from collections import defaultdict
from collections.abc import Collection
from fnmatch import fnmatchcase
from pathlib import Path

import transformers
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from harness.errors import UserError
from harness.method import Stage


def trained_names(method: nn.Module, stage: Stage) -> dict[str, str]:
    """Parameter name -> field with its learning rate, for what the stage trains; the first matching pattern counts.

    Raises UserError when nothing matches.
    """
    found = {}
    for name, _ in method.named_parameters():
        pattern = next((pattern for pattern in stage.trains if fnmatchcase(name, pattern)), None)
        if pattern is not None:
            found[name] = stage.trains[pattern]
    if not found:
        raise UserError(f'stage "{stage.name}" trains nothing: no parameter matches {", ".join(stage.trains)}')
    return found


def trainable(method: nn.Module, stage: Stage) -> dict[str, list[nn.Parameter]]:
    """Freeze and unfreeze for a stage; learning-rate field -> its parameters."""
    fields = trained_names(method, stage)
    groups: dict[str, list[nn.Parameter]] = defaultdict(list)
    for name, parameter in method.named_parameters():
        parameter.requires_grad_(name in fields)
        if name in fields:
            groups[fields[name]].append(parameter)
    return groups


def count(method: nn.Module, *, trained: bool) -> int:
    """Number of parameters, all of them or those that train now."""
    return sum(parameter.numel() for parameter in method.parameters() if parameter.requires_grad or not trained)


def added(method: nn.Module) -> int:
    """Number of parameters outside the pretrained encoders: prompts, prefixes, adapters, heads, classifiers."""
    pretrained = {
        parameter
        for module in method.modules()
        if isinstance(module, transformers.PreTrainedModel)
        for parameter in module.parameters()
    }
    return sum(parameter.numel() for parameter in method.parameters() if parameter not in pretrained)


def state(method: nn.Module, names: Collection[str]) -> dict[str, Tensor]:
    """Copies of the named parameters, and of all buffers that change (BatchNorm's; position numbers are constants)."""
    chosen = {*names, *(name for name, _ in method.named_buffers())}
    return {name: value.detach().clone() for name, value in method.state_dict().items() if name in chosen}


def save_state(method: nn.Module, names: Collection[str], path: Path) -> None:
    """Write `state` as safetensors, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        save_file({name: value.cpu().contiguous() for name, value in state(method, names).items()}, temporary)
        temporary.chmod(0o644)  # as the store's other files: safetensors makes private ones
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def load_state(method: nn.Module, names: Collection[str], path: Path) -> None:
    """Put what `save_state` wrote into a method of the same configuration. Raises UserError when it does not fit."""
    try:
        found = load_file(path)
        unknown = method.load_state_dict(found, strict=False).unexpected_keys
    except (SafetensorError, RuntimeError, OSError) as error:
        raise UserError(f"the weights {path} cannot be read ({str(error).splitlines()[0]})") from None
    if wrong := [*unknown, *sorted(set(names) - set(found))]:
        raise UserError(f"the weights {path} are those of another method: they differ in {wrong[0]}")
