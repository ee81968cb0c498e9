"""Linear layers with packed weights, for evaluation on a CPU.

oneDNN can lay out the weights of a layer beforehand. It then multiplies float32 matrices an eighth
faster than the default library multiplies row-major ones (benchmarks/README.md), and the numbers
are the same to 1e-6. Under bf16 autocast the weights are also rounded once, not at every call. The
weights must not change meanwhile.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

ROWS = 1024
"""The number of rows for which the layout is made; it works for any other number"""


@contextmanager
def packed_linears(module: nn.Module) -> Iterator[None]:
    """Let every float32 linear layer of `module` on a CPU work with packed weights in the block.

    Afterwards the layers are as before. Enter it under the autocast of the forward passes, since
    that decides the type of the packed weights.
    """
    # Subclasses of Linear may compute something else.
    layers = [
        layer for layer in module.modules() if type(layer) is nn.Linear and _packable(layer.weight)
    ]
    for layer in layers:
        layer.forward = _Packed(layer)  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        # The attribute hid the method of the class, which is there again.
        for layer in layers:
            del layer.forward


class _Packed:
    """The forward pass of one layer with packed weights."""

    def __init__(self, layer: nn.Linear) -> None:
        self.dtype = _packed_type()
        self.weight = torch.ops.mkldnn._reorder_linear_weight(
            layer.weight.detach().to(self.dtype), ROWS
        )
        self.bias = None if layer.bias is None else layer.bias.detach().to(self.dtype)

    def __call__(self, states: Tensor) -> Tensor:
        states = states.to(self.dtype)
        product: Tensor = torch.ops.mkldnn._linear_pointwise(
            states, self.weight, self.bias, "none", [], None
        )
        return product


def _packed_type() -> torch.dtype:
    """The type in which layers multiply now."""
    return torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else torch.float32


def _packable(weight: Tensor) -> bool:
    # The operators are private ones of torch, so a build may lack them.
    return (
        weight.dim() == 2  # one that is sharded over several processes is not there now
        and weight.device.type == "cpu"
        and weight.dtype == torch.float32
        and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        and _multiplies(_packed_type())
    )


def _multiplies(kind: torch.dtype) -> bool:
    """Whether oneDNN has products of this type on this CPU; torch's own layers emulate others."""
    if kind == torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return kind == torch.float32 or bool(torch.ops.mkldnn._is_mkldnn_fp16_supported())
