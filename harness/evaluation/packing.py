"""Linear layers with packed weights, for evaluation on a CPU.

oneDNN multiplies float32 matrices whose weights it has laid out beforehand an eighth faster than the default library
does row-major ones (benchmarks/README.md), with the same numbers to 1e-6. Under bf16 autocast the weights are rounded
and laid out once, not at every call. The weights must not change meanwhile.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

ROWS = 1024
"""The layout's favourite number of rows; others work as well"""


@contextmanager
def packed_linears(module: nn.Module) -> Iterator[None]:
    """Inside, every float32 linear layer of `module` on a CPU works with packed weights; afterwards as before. To be
    entered under the autocast that the forward passes run under."""
    layers = [
        layer for layer in module.modules() if type(layer) is nn.Linear and _packable(layer.weight)
    ]
    for layer in layers:
        layer.forward = _Packed(layer)  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward


class _Packed:
    """The forward pass of one layer."""

    def __init__(self, layer: nn.Linear) -> None:
        self.dtype = (
            torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else torch.float32
        )
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


def _packable(weight: Tensor) -> bool:
    return (
        weight.device.type == "cpu"
        and weight.dtype == torch.float32
        and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )
