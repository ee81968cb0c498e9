"""Which parameters a stage trains, with which learning rate."""

from collections import defaultdict
from fnmatch import fnmatchcase

import transformers
from torch import nn

from harness.errors import UserError
from harness.plugin.stage import Stage


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
        raise UserError(
            f'stage "{stage.name}" trains nothing: no parameter matches {", ".join(stage.trains)}'
        )
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
    return sum(
        parameter.numel()
        for parameter in method.parameters()
        if parameter.requires_grad or not trained
    )


def added(method: nn.Module) -> int:
    """Number of parameters outside the pretrained encoders: prompts, prefixes, adapters, heads, classifiers."""
    pretrained = {
        parameter
        for module in method.modules()
        if isinstance(module, transformers.PreTrainedModel)
        for parameter in module.parameters()
    }
    return sum(
        parameter.numel() for parameter in method.parameters() if parameter not in pretrained
    )
