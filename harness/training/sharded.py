"""Weights that DeepSpeed has sharded over the ranks: made whole, and set.

All ranks must call these functions together.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from harness.ranks import rank_number


def is_sharded(parameter: nn.Parameter) -> bool:
    """Whether each rank has only a part of the parameter (ZeRO 3)."""
    return hasattr(parameter, "ds_id")


def whole(parameter: nn.Parameter) -> Tensor:
    """The values of a parameter; of a sharded one a copy in the memory of the CPU."""
    if not is_sharded(parameter):
        return parameter.detach()
    import deepspeed

    with deepspeed.zero.GatheredParameters([parameter]):
        return parameter.detach().to("cpu", copy=True)


@contextmanager
def readable(method: nn.Module) -> Iterator[None]:
    """In the block, what a method reads outside of a training step is whole.

    The modules of pretrained models get their weights when they run; those of a method may not.
    """
    sharded = [each for each in method.parameters() if is_sharded(each)]
    if not sharded:
        yield
        return
    import deepspeed
    from transformers import PreTrainedModel  # it takes seconds to import

    pretrained = (each for each in method.modules() if isinstance(each, PreTrainedModel))
    inside = {id(parameter) for model in pretrained for parameter in model.parameters()}
    beside = [parameter for parameter in sharded if id(parameter) not in inside]
    with deepspeed.zero.GatheredParameters(beside, enabled=bool(beside)):
        yield


def load_weights(method: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Set parameters, buffers and extra state by name; the others stay as they are."""
    plain = dict(weights)
    for name, parameter in method.named_parameters():
        if name in plain and is_sharded(parameter):
            _set_whole(parameter, plain.pop(name))
    method.load_state_dict(plain, strict=False)


def _set_whole(parameter: nn.Parameter, value: Tensor) -> None:
    import deepspeed

    with deepspeed.zero.GatheredParameters([parameter], modifier_rank=0), torch.no_grad():
        if rank_number() == 0:
            parameter.copy_(value)
