"""NT-Xent against its definition in float64, and ends of the range of CoSENT."""

import math

import numpy as np
import pytest
import torch

from harness.losses.nt_xent import nt_xent
from harness.losses.scored_pairs import cosent

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


# Ends of the range of CoSENT; its formula is compared in tests/methods/test_scored_pairs.py.


def test_equal_scores_teach_nothing_and_have_a_gradient() -> None:
    first, second = torch.randn(2, 7, 5).unbind()
    loss = cosent(first.requires_grad_(), second, torch.ones(7), scale=20.0)
    loss.backward()
    assert loss.item() == 0
    assert first.grad is not None
    assert not first.grad.any()


def test_the_loss_stays_finite_at_a_large_scale() -> None:
    first = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    second = torch.tensor([[-1.0, 0.0], [1.0, 0.0]])
    # Ordered the wrong way round: the loss is the difference of 2, scaled.
    assert cosent(first, second, torch.tensor([1.0, 0.0]), scale=1e4).item() == pytest.approx(2e4)
