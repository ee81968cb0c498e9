"""NT-Xent and the losses of scored pairs against their definitions in float64."""

import math

import numpy as np
import pytest
import torch

from harness.losses.nt_xent import nt_xent
from harness.losses.scored_pairs import cosent, cosine_mse

# NT-Xent against clsr.md, section 2.


def written_out(first: np.ndarray, second: np.ndarray, temperature: float) -> float:
    """The mean over every ordered pair (a, b), with a sum over all vectors but a itself."""
    vectors = [row / np.linalg.norm(row) for row in (*first, *second)]
    pairs = len(first)
    total = 0.0
    for a, anchor in enumerate(vectors):
        b = a + pairs if a < pairs else a - pairs
        others = [
            math.exp(float(anchor @ other) / temperature)
            for i, other in enumerate(vectors)
            if i != a
        ]
        total -= math.log(math.exp(float(anchor @ vectors[b]) / temperature) / sum(others))
    return total / len(vectors)


@pytest.mark.parametrize(("pairs", "temperature"), [(2, 1.0), (5, 0.1), (9, 0.5)])
def test_written_out(pairs: int, temperature: float) -> None:
    generator = np.random.default_rng(pairs)
    first, second = generator.standard_normal((2, pairs, 7))
    loss = nt_xent(torch.tensor(first), torch.tensor(second), temperature=temperature)
    assert loss.item() == pytest.approx(written_out(first, second, temperature), rel=1e-5)


def test_trap_3_the_own_side_is_in_the_denominator() -> None:
    """A sum over the orthogonal partners of two equal anchors alone would give log 2."""
    one, two, three = torch.eye(3)
    loss = nt_xent(torch.stack([one, one]), torch.stack([two, three]), temperature=1.0)
    assert loss.item() == pytest.approx((math.log(2 + math.e) + math.log(3)) / 2)


def test_both_directions_and_no_lengths() -> None:
    first, second = torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(0))
    loss = nt_xent(first, second, temperature=0.1)
    assert nt_xent(second, first, temperature=0.1).item() == pytest.approx(loss.item())
    assert nt_xent(3 * first, second / 7, temperature=0.1).item() == pytest.approx(
        loss.item(), rel=1e-5
    )


def test_gradient_is_finite_and_orthogonal_to_the_vectors() -> None:
    first = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)).requires_grad_()
    second = torch.randn(6, 4, generator=torch.Generator().manual_seed(1))
    nt_xent(first, second, temperature=0.1).backward()
    assert first.grad is not None
    assert first.grad.isfinite().all()
    assert first.grad.abs().max() > 1e-3
    assert (first.grad * first).sum(dim=1).abs().max() < 1e-5


def test_autocast_does_not_reach_it() -> None:
    first, second = torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(0))
    plain = nt_xent(first, second, temperature=0.1)
    with torch.autocast("cpu", torch.bfloat16):
        assert nt_xent(first, second, temperature=0.1).equal(plain)


# The losses of scored pairs against their definitions in float64 (scored_pairs.md, section 1).

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
