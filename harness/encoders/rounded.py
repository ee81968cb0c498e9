"""Frozen linear layers whose weights are rounded once, and not at every use.

Autocast rounds the weights of a layer to bf16 or fp16 before a product. It keeps the rounded copies
of weights that train until its block ends, and rounds frozen ones anew in every pass. Here they are
rounded beforehand, to the same numbers; the weights themselves stay, for what is computed in
float32.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional


class Rounded:
    """The forward pass of a linear layer with a rounded copy of its weights, under autocast."""

    def __init__(self, layer: nn.Linear, kind: torch.dtype) -> None:
        self._usual, self.kind = layer.forward, kind
        self.weight = layer.weight.detach().to(kind)
        self._bias = None if layer.bias is None else layer.bias.detach().to(kind)

    @property
    def counts(self) -> bool:
        """Whether autocast would round to the same type now."""
        place = self.weight.device.type
        return torch.is_autocast_enabled(place) and torch.get_autocast_dtype(place) == self.kind

    def __call__(self, states: Tensor) -> Tensor:
        """states: (..., in) -> (..., out)."""
        if not self.counts:
            return self._usual(states)
        return functional.linear(states, self.weight, self._bias)


def weight_of(layer: nn.Linear) -> Tensor:
    """The weight of a layer for a product: the rounded copy where there is one that counts."""
    forward = layer.forward
    return forward.weight if isinstance(forward, Rounded) and forward.counts else layer.weight


@contextmanager
def rounded_linears(
    module: nn.Module, kind: torch.dtype | None, moved: Collection[str] = ()
) -> Iterator[None]:
    """In the block, the frozen linear layers of a module round nothing under autocast.

    kind: the numbers of autocast; None: nothing happens, as it needs none. moved: names of
    parameters that change though no gradient changes them. All other frozen weights must stay as
    they are.
    """
    changing = {module.get_parameter(name) for name in moved}
    layers = [
        layer
        for layer in module.modules()
        # Subclasses of Linear may compute something else.
        if kind is not None and type(layer) is nn.Linear and _constant(layer, changing)
    ]
    for layer in layers:
        layer.forward = Rounded(layer, kind)  # type: ignore[method-assign, assignment, arg-type]
    try:
        yield
    finally:
        # The attribute hid the method of the class, which is there again.
        for layer in layers:
            del layer.forward


def _constant(layer: nn.Linear, changing: Collection[Tensor]) -> bool:
    """Whether float32 weights of a layer stay as they are."""
    return layer.weight.dtype == torch.float32 and not any(
        each.requires_grad or each in changing for each in layer.parameters()
    )
