"""The losses of scored pairs against their definitions in float64 (scored_pairs.md, section 1)."""

import math

import numpy as np
import pytest
import torch

from harness.losses.scored_pairs import cosent, cosine_mse

GENERATOR = np.random.default_rng(3)
FIRST, SECOND = GENERATOR.normal(size=(2, 7, 5))
SCORES = np.array([0.0, 2.5, 5.0, 2.5, 1.0, 5.0, 3.8])
COSINES = [
    float(u @ v) / math.sqrt(float(u @ u) * float(v @ v))
    for u, v in zip(FIRST, SECOND, strict=True)
]


def tensors() -> tuple[torch.Tensor, torch.Tensor]:
    """Both sentences' vectors, in float32 and with gradients."""
    first, second = (torch.tensor(each, dtype=torch.float32) for each in (FIRST, SECOND))
    return first.requires_grad_(), second.requires_grad_()


def test_cosines_are_fitted_to_similarities() -> None:
    expected = sum((c - s / 5) ** 2 for c, s in zip(COSINES, SCORES, strict=True)) / 7
    found = cosine_mse(*tensors(), torch.tensor(SCORES) / 5)
    assert found.item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("scale", [1.0, 20.0])
def test_cosent_sums_over_ordered_pairs_of_items(scale: float) -> None:
    total = sum(
        math.exp(scale * (COSINES[j] - COSINES[i]))
        for i in range(7)
        for j in range(7)
        if SCORES[i] > SCORES[j]
    )
    found = cosent(*tensors(), torch.tensor(SCORES), scale=scale)
    assert found.item() == pytest.approx(math.log(1 + total), rel=1e-5)


def test_cosent_sees_the_order_of_the_scores_alone() -> None:
    scores = torch.tensor(SCORES)
    assert torch.equal(
        cosent(*tensors(), scores, scale=20.0), cosent(*tensors(), scores**2 - 7, scale=20.0)
    )


def test_equal_scores_teach_nothing_and_have_a_gradient() -> None:
    first, second = tensors()
    loss = cosent(first, second, torch.ones(7), scale=20.0)
    loss.backward()
    assert loss.item() == 0
    assert first.grad is not None
    assert not first.grad.any()


def test_the_loss_stays_finite_at_a_large_scale() -> None:
    first = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    second = torch.tensor([[-1.0, 0.0], [1.0, 0.0]])
    # Ordered the wrong way round: the loss is the difference of 2, scaled.
    assert cosent(first, second, torch.tensor([1.0, 0.0]), scale=1e4).item() == pytest.approx(2e4)
