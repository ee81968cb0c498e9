"""FSDP2: torch shards weights, gradients and the optimiser's state over the ranks.

Each layer of a decoder is a group, whose weights are whole while it runs. All other parameters of a
method are one more group, which is whole during the losses of a batch. The layers of other encoders
belong to that group, too, because passes without padding read their weights and do not call them
(harness.encoders.unpadding). At all other times a parameter is a `DTensor`, of which each rank has
some rows.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from transformers import PreTrainedModel

from harness.encoders.families import is_decoder
from harness.ranks import rank_count
from harness.training.optimisers import StageOptimiser
from harness.training.saved_state import AROUND, shared_out


class WholeWeights(nn.Module):
    """A method whose parameters outside of a decoder's layers are whole while it runs something."""

    def __init__(self, method: nn.Module) -> None:
        super().__init__()
        self.method = method

    def forward(self, run: Callable[..., Any], *arguments: Any) -> Any:
        """What `run` computes with the method."""
        return run(*arguments)


def shard(method: nn.Module, device: torch.device) -> None:
    """Leave each rank its part of every parameter of `method`, which is in the CPU's memory.

    All ranks call this together. A layer goes to the device and is sharded before the next one.
    """
    mesh = init_device_mesh(device.type, (rank_count(),))
    for layer in _decoder_layers(method):
        fully_shard(layer, mesh=mesh)
    # Not the method itself, of which torch would make another class, and a plugin's class may have
    # bases with which that is not possible.
    around = WholeWeights(method)
    fully_shard(around, mesh=mesh, reshard_after_forward=True)
    object.__setattr__(method, AROUND, around)  # torch would take it for a part of the method
    # The first pass tells torch what is around all others, and a score runs layers alone.
    around(lambda: None)


def _decoder_layers(method: nn.Module) -> Iterator[nn.Module]:
    for model in method.modules():
        if isinstance(model, PreTrainedModel) and is_decoder(model.config.to_dict()):
            kinds = {*(model._no_split_modules or ())}
            yield from (each for each in model.modules() if type(each).__name__ in kinds)


class FullyShardedOptimiser(StageOptimiser):
    """The optimiser of a stage whose parameters, gradients and states are sharded.

    It computes with the rank's own rows as plain tensors, because every optimiser that it may have
    treats each number for itself. The norm of the gradients is that of all ranks.
    """

    def __init__(self, *arguments: Any) -> None:
        """The arguments are those of `StageOptimiser`."""
        super().__init__(*arguments)
        _, method = arguments[:2]
        self.losses = partial(getattr(method, AROUND), method.losses)
        self._shards: list[tuple[nn.Parameter, DTensor]] = []
        """A rank's own rows, and the parameter to which they belong, in the optimiser's order"""
        for group in self.torch.param_groups:
            own = [nn.Parameter(each.detach().to_local()) for each in group["params"]]
            self._shards += zip(own, group["params"], strict=True)
            group["params"] = own

    def clip_gradients(self) -> Tensor:
        norm = super().clip_gradients()
        for own, parameter in self._shards:
            gradient = cast("DTensor | None", parameter.grad)
            own.grad = None if gradient is None else gradient.to_local()
        return norm.full_tensor() if isinstance(norm, DTensor) else norm

    def tensors(self) -> dict[str, Tensor]:
        found = {}
        for name, value in super().tensors().items():
            own, parameter = self._shards[int(name.partition("/")[0])]
            if value.shape == own.shape and value.dim():
                value = DTensor.from_local(
                    value, parameter.device_mesh, parameter.placements,
                    shape=parameter.shape, stride=parameter.stride(),
                ).full_tensor()  # fmt: skip
            found[name] = value
        return found

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        own = {}
        for name, value in tensors.items():
            _, parameter = self._shards[int(name.partition("/")[0])]
            same = value.shape == parameter.shape and value.dim()
            own[name] = shared_out(value, parameter).to_local() if same else value
        super().load(own)
