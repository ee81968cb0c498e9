"""Take elements of a tensor by their numbers, and put them back; each is the other's gradient.

torch's own `index_select` and indexing add up the gradients of elements that were taken twice. Here
the numbers are distinct, so that copies do, which are several times as fast on a CPU and
deterministic on a GPU.
"""

from typing import Any

from torch import Tensor
from torch.autograd import Function


def take(values: Tensor, index: Tensor) -> Tensor:
    """The elements values[index]: (count, ...) -> (taken, ...).

    index: (taken,), distinct numbers.
    """
    taken: Tensor = _Take.apply(values, index)  # type: ignore[no-untyped-call]
    return taken


def put(values: Tensor, index: Tensor, count: int) -> Tensor:
    """The inverse of `take`: (taken, ...) -> (count, ...), with 0 where nothing was taken."""
    whole: Tensor = _Put.apply(values, index, count)  # type: ignore[no-untyped-call]
    return whole


class _Take(Function):
    @staticmethod
    def forward(context: Any, values: Tensor, index: Tensor) -> Tensor:
        context.count = len(values)
        context.save_for_backward(index)
        return values.index_select(0, index)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (index,) = context.saved_tensors
        return put(gradients[0], index, context.count), None


class _Put(Function):
    @staticmethod
    def forward(context: Any, values: Tensor, index: Tensor, count: int) -> Tensor:
        context.save_for_backward(index)
        return values.new_zeros(count, *values.shape[1:]).index_copy_(0, index, values)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (index,) = context.saved_tensors
        return take(gradients[0], index), None, None
