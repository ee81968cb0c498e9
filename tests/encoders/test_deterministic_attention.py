"""The backward pass of attention is deterministic where deterministic algorithms are asked for."""

from collections.abc import Iterator

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from harness.encoders.prefix_attention import determine

MODES = {"default": 0, "warn": 1, "error": 2}


@pytest.fixture(autouse=True)
def _mode() -> Iterator[None]:
    before = torch.get_deterministic_debug_mode()
    yield
    torch.set_deterministic_debug_mode(before)


@pytest.mark.parametrize(("asked", "during"), [("default", 0), ("warn", 2), ("error", 2)])
def test_it_is_demanded_for_the_attention_alone(asked: str, during: int) -> None:
    torch.set_deterministic_debug_mode(asked)
    query, key, value = (torch.randn(2, 3, 5, 8, requires_grad=True) for _ in range(3))
    attended = scaled_dot_product_attention(query, key, value)
    states = attended.transpose(1, 2).contiguous()
    determine(states)
    seen: list[int] = []
    # It is called behind the one of `determine`, and in front of the operation.
    attended.grad_fn.register_prehook(lambda _: seen.append(torch.get_deterministic_debug_mode()))
    query.register_hook(lambda _: seen.append(torch.get_deterministic_debug_mode()))
    states.square().sum().backward()
    assert seen == [during, MODES[asked]]
    assert torch.get_deterministic_debug_mode() == MODES[asked]


def test_without_gradients_nothing_happens() -> None:
    with torch.no_grad():
        determine(scaled_dot_product_attention(*torch.randn(3, 2, 3, 5, 8)))


def test_other_operations_are_left_alone() -> None:
    torch.set_deterministic_debug_mode("warn")
    first = torch.randn(3, 3, requires_grad=True)
    determine((first @ first).softmax(-1))
    (first @ first).sum().backward()
    assert torch.get_deterministic_debug_mode() == 1
