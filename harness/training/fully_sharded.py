"""FSDP2: torch shards weights, gradients and the optimiser's state over the ranks.

Each layer of a decoder is a group, whose weights are whole while it runs. All other parameters of a
method are one more group, which is whole during the losses of a batch. The layers of other encoders
belong to that group, too, because passes without padding read their weights and do not call them
(harness.encoders.unpadding). At all other times a parameter is a `DTensor`, of which each rank has
some rows.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor
from transformers import PreTrainedModel

from harness.encoders.families import is_decoder
from harness.ranks import gather, rank_count
from harness.training.optimisers import StageOptimiser, gradients_of
from harness.training.parameters import rounded_in_products, without_changes
from harness.training.saved_state import AROUND, shared_out


class WholeWeights(nn.Module):
    """A method whose parameters outside of a decoder's layers are whole while it runs something."""

    def __init__(self, method: nn.Module) -> None:
        super().__init__()
        self.method = method
        self.in_step = False
        """Whether a step computes now, its backward pass included"""

    def forward(self, run: Callable[..., Any], *arguments: Any) -> Any:
        """Result of `run`, which computes with the method."""
        return run(*arguments)


class RoundedGather:
    """The all-gather of a group, in which weights travel in a step as products round them.

    torch's own policy (`MixedPrecisionPolicy`) rounds all of a group, also norms and embeddings,
    with the sums of their gradients, and an evaluation in float32 would have no weights.
    """

    def __init__(self, around: WholeWeights, sizes: list[int], kinds: list[torch.dtype]) -> None:
        """Gather parts of so many numbers, in the order of the group, as these kinds."""
        self.around, self.sizes, self.kinds = around, sizes, kinds

    def allocate(self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Room for the parts of all ranks, as torch asks for it."""
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(
        self,
        output_tensor: Tensor,
        input_tensor: Tensor,
        group: dist.ProcessGroup,
        async_op: bool = False,
    ) -> dist.Work | None:
        """Put the parts of all ranks into `output_tensor`, (ranks * numbers,)."""
        if not self.around.in_step:
            return cast(
                "dist.Work | None",
                gather(output_tensor, input_tensor, group=group, async_op=async_op),
            )
        parts = zip(torch.split(input_tensor, self.sizes), self.kinds, strict=True)
        sent = torch.cat([part.to(kind).view(torch.uint8) for part, kind in parts])
        received = sent.new_empty(group.size() * len(sent))
        gather(received, sent, group=group)
        places = torch.split(output_tensor.view(group.size(), -1), self.sizes, dim=1)
        lengths = [size * kind.itemsize for size, kind in zip(self.sizes, self.kinds, strict=True)]
        arrived = torch.split(received.view(group.size(), -1), lengths, dim=1)
        for place, part, kind in zip(places, arrived, self.kinds, strict=True):
            place.copy_(part.contiguous().view(kind))
        return None


def shard(method: nn.Module, device: torch.device, kind: torch.dtype | None) -> None:
    """Leave each rank its part of every parameter of `method`, which is in the CPU's memory.

    kind: the numbers to which products round in a step; None: to none. All ranks call this
    together. A layer goes to the device and is sharded before the next one.
    """
    mesh = init_device_mesh(device.type, (rank_count(),))
    # Not the method itself, of which torch would make another class, and a plugin's class may have
    # bases with which that is not possible.
    around = WholeWeights(method)
    groups = [*_decoder_layers(method), around]
    for module in groups:
        fully_shard(module, mesh=mesh, reshard_after_forward=True)
    object.__setattr__(method, AROUND, around)  # torch would take it for a part of the method
    # The first pass tells torch what is around all others, and a score runs layers alone.
    around(lambda: None)
    if kind is not None:
        for module in groups:
            _gather_rounded(module, around, kind)


def _gather_rounded(module: nn.Module, around: WholeWeights, kind: torch.dtype) -> None:
    """Let weights of linear layers travel as `kind` when torch gathers the module's group."""
    rounded = {*rounded_in_products(around)}
    # The order in which torch lays out the parameters of a group has no other name.
    for group in fully_shard.state(module)._fsdp_param_groups:  # type: ignore[attr-defined]
        own = {each.sharded_param: each._sharded_param_data for each in group.fsdp_params}
        if {each.dtype for each in own.values()} == {torch.float32}:  # else torch sends bytes
            sizes = [each.numel() for each in own.values()]
            kinds = [kind if each in rounded else torch.float32 for each in own]
            gather_rounded = RoundedGather(around, sizes, kinds)
            cast("FSDPModule", module).set_custom_all_gather(gather_rounded)  # type: ignore[arg-type]


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
        self._around: WholeWeights = getattr(method, AROUND)
        self.losses = partial(self._around, without_changes(method, frozen=True))
        self._shards: list[tuple[nn.Parameter, DTensor]] = []
        """A rank's own rows, and the parameter to which they belong, in the optimiser's order"""
        for group in self.torch.param_groups:
            own = [nn.Parameter(each.detach().to_local()) for each in group["params"]]
            self._shards += zip(own, group["params"], strict=True)
            group["params"] = own

    @contextmanager
    def accumulating(self, *, last: bool) -> Iterator[None]:
        self._around.in_step = True
        yield
        self._around.in_step = False

    def clip_gradients(self) -> Tensor:
        for own, parameter in self._shards:
            gradient = cast("DTensor | None", parameter.grad)
            own.grad = None if gradient is None else gradient.to_local()
        if self.stage.optimisation.clipping == "released":
            norm = super().clip_gradients()  # of the same numbers
            return norm.full_tensor() if isinstance(norm, DTensor) else norm
        # As plain tensors: the first step of DTensors finds out for each parameter how ranks share.
        parameters = [own for own, _ in self._shards]
        norm = nn.utils.get_total_norm(gradients_of(parameters))
        square = norm.to(parameters[0].device, torch.float32).square()
        dist.all_reduce(square)
        whole = square.sqrt()
        nn.utils.clip_grads_with_norm_(parameters, self.largest_norm, whole)
        return whole

    def tensors(self) -> dict[str, Tensor]:
        whole = {}
        for name, value in super().tensors().items():
            own, parameter = self._shards[int(name.partition("/")[0])]
            if value.shape == own.shape and value.dim():
                value = DTensor.from_local(
                    value, parameter.device_mesh, parameter.placements,
                    shape=parameter.shape, stride=parameter.stride(),
                ).full_tensor()  # fmt: skip
            whole[name] = value
        return whole

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        own = {}
        for name, value in tensors.items():
            _, parameter = self._shards[int(name.partition("/")[0])]
            same = value.shape == parameter.shape and value.dim()
            own[name] = shared_out(value, parameter).to_local() if same else value
        super().load(own)
