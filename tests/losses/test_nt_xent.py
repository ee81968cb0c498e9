"""NT-Xent against clsr.md, section 2."""

import math

import numpy as np
import pytest
import torch

from harness.losses.nt_xent import nt_xent


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
    """Two equal anchors have orthogonal partners.

    A sum over the partners alone would give log 2 for all four vectors.
    """
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
