"""Parameters that a stage trains, their learning rates, and their number."""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from glob import escape
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from harness.encoders.low_rank import MARK
from harness.errors import TrialFailure, UserError, suggest
from harness.plugin.kit import kept_weights
from harness.plugin.method import Method
from harness.plugin.stage import Stage
from harness.training.saved_state import is_sharded


def trained_names(method: nn.Module, stage: Stage) -> dict[str, str]:
    """Name of a parameter that the stage trains -> configuration field with its learning rate.

    The first pattern that matches a name counts; weights in whose place low-rank changes train do
    not. Raises UserError when a pattern matches no parameter, and when nothing is left to train.
    """
    if missing := unmatched(method, stage):
        # Patterns for the parts of the method: `encoder.*` for `encoder.model.embeddings...`.
        parts = (name.partition(".") for name, _ in method.named_parameters())
        patterns = {f"{escape(part)}.*" if rest else escape(part) for part, _, rest in parts}
        raise UserError(
            f'stage "{stage.name}" trains "{missing[0]}", which matches no parameter of the method'
            f"{suggest(missing[0], patterns)}"
        )
    trained, kept = {}, {*kept_weights(method)}
    for name, _ in method.named_parameters():
        pattern = next((pattern for pattern in stage.trains if fnmatchcase(name, pattern)), None)
        if pattern is not None and name not in kept:
            trained[name] = stage.trains[pattern]
    if not trained:
        raise UserError(
            f'stage "{stage.name}" trains nothing: low-rank changes stand for all that matches '
            f"{', '.join(stage.trains)}"
        )
    return trained


def unmatched(method: nn.Module, stage: Stage) -> list[str]:
    """The patterns of `Stage.trains` that match no parameter."""
    names = [name for name, _ in method.named_parameters()]
    return [
        pattern for pattern in stage.trains if not any(fnmatchcase(name, pattern) for name in names)
    ]


def moved_names(method: nn.Module, stage: Stage) -> set[str]:
    """The names of the parameters that the method itself changes in the stage."""
    return {
        name
        for name, _ in method.named_parameters()
        if any(fnmatchcase(name, pattern) for pattern in stage.moves)
    }


def changing_names(method: nn.Module, stages: Iterable[Stage]) -> set[str]:
    """The names of the parameters that some stage trains, or in which the method changes them."""
    return {
        name
        for stage in stages
        for name in (*trained_names(method, stage), *moved_names(method, stage))
    }


def trainable(method: nn.Module, stage: Stage) -> dict[str, list[nn.Parameter]]:
    """Freeze what a stage does not train, and unfreeze the rest.

    Returns field with the learning rate -> its parameters. Raises UserError when there are none.
    """
    fields = trained_names(method, stage)
    groups: dict[str, list[nn.Parameter]] = defaultdict(list)
    for name, parameter in method.named_parameters():
        parameter.requires_grad_(name in fields)
        if name in fields:
            groups[fields[name]].append(parameter)
    return groups


def without_changes(
    method: Method[Any], *, frozen: bool = False
) -> Callable[..., dict[str, Tensor]]:
    """The losses of a method that may not change a parameter of which ranks have shares.

    The first batch raises TrialFailure when it changes one, because the change would be lost.
    frozen: whether they share frozen ones, too, though these are whole now.
    """
    batches = itertools.count()

    def changes() -> dict[str, int]:
        """Name -> how often an operation has changed the tensor in place, as torch counts it."""
        return {
            name: value._version
            for name, value in method.named_parameters()
            if frozen or value.requires_grad or is_sharded(value)
        }

    def losses(*arguments: Any) -> dict[str, Tensor]:
        if next(batches):
            return method.losses(*arguments)
        before = changes()
        terms = method.losses(*arguments)
        if changed := sorted(name for name, _ in changes().items() - before.items()):
            raise TrialFailure(
                f"the method changes {changed[0]} by itself while it computes its losses, and "
                f"engines that shard do not see that; set engine=ddp"
            )
        return terms

    return losses


def rounded_in_products(method: nn.Module) -> list[Tensor]:
    """The float32 weights that autocast rounds wherever they are read: those of linear layers."""
    layers = [each for each in method.modules() if type(each) is nn.Linear]
    elsewhere = {  # a weight that an embedding shares is read unrounded there
        parameter
        for module in method.modules()
        if type(module) is not nn.Linear
        for parameter in module.parameters(recurse=False)
    }
    weights = {layer.weight: None for layer in layers if layer.weight.dtype == torch.float32}
    return [each for each in weights if each not in elsewhere]


def whole_shape(parameter: nn.Parameter) -> torch.Size:
    """The shape of a parameter on all ranks together; ZeRO 3 leaves a rank none of it."""
    return getattr(parameter, "ds_shape", parameter.shape)


def count(method: nn.Module, *, trained: bool) -> int:
    """The number of parameters; `trained`: only of those that train now."""
    return sum(
        whole_shape(parameter).numel()
        for parameter in method.parameters()
        if parameter.requires_grad or not trained
    )


def added(method: nn.Module) -> int:
    """The number of parameters outside the pretrained encoders.

    They belong to prompts, prefixes, adapters, low-rank changes, heads and classifiers.
    """
    # Parts that come from a checkpoint are modules of transformers; all else is the method's own.
    pretrained = {
        parameter
        for module in method.modules()
        if isinstance(module, transformers.PreTrainedModel)
        for name, parameter in module.named_parameters()
        if MARK not in name
    }
    return sum(
        whole_shape(parameter).numel()
        for parameter in method.parameters()
        if parameter not in pretrained
    )
