"""The loss of contrastive tension against its formula in float64."""

import math

import pytest
import torch

from harness.losses.contrastive_tension import tension


def test_formula() -> None:
    torch.manual_seed(0)
    first, second = (torch.randn(6, 5, dtype=torch.float64) for _ in range(2))
    same = torch.tensor([True, False, False, True, False, False])
    total = 0.0
    for u, v, positive in zip(first.tolist(), second.tolist(), same.tolist(), strict=True):
        z = sum(a * b for a, b in zip(u, v, strict=True))
        probability = 1 / (1 + math.exp(-z))
        total -= math.log(probability if positive else 1 - probability)
    assert tension(first, second, same).item() == pytest.approx(total / 6, rel=1e-12)


def test_gradient_draws_a_pair_together_and_the_others_apart() -> None:
    first = torch.tensor([[1.0, 0.0], [1.0, 0.0]], dtype=torch.float64, requires_grad=True)
    second = torch.tensor([[0.0, 1.0], [0.0, 1.0]], dtype=torch.float64)
    tension(first, second, torch.tensor([True, False])).backward()
    assert first.grad is not None
    # At z = 0 the derivative is sigmoid(0) - target, over two rows.
    assert first.grad.tolist() == [[0.0, -0.25], [0.0, 0.25]]


def test_large_products_stay_finite_under_autocast() -> None:
    vectors = torch.full((2, 768), 10.0)
    with torch.autocast("cpu", torch.bfloat16):
        loss = tension(vectors, vectors, torch.tensor([True, False]))
    assert loss.item() == pytest.approx(768 * 100 / 2)
