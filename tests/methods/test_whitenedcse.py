"""WhitenedCSE against whitenedcse.md."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from harness.plugin import registry
from tests.families import FAMILIES
from tests.methods.references import KitFor, batches_of, info_nce

PLUGIN = registry.load("whitenedcse")
group_whitened = PLUGIN.method._whitened.__globals__["group_whitened"]


def whitened(vectors: np.ndarray, order: list[int], size: int) -> np.ndarray:
    """Section 1, group after group; X = U S V^T gives sqrt(rows) U V^T as its ZCA whitening."""
    done = np.zeros_like(vectors)
    for start in range(0, len(order), size):
        group = order[start : start + size]
        centred = vectors[:, group] - vectors[:, group].mean(axis=0)
        left, scales, right = np.linalg.svd(centred, full_matrices=False)
        kept = scales > 1e-5 * scales.max()
        done[:, group] = math.sqrt(len(vectors)) * left[:, kept] @ right[kept]
    return done


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("rows", "size"), [(9, 3), (9, 4), (3, 5), (1, 4)])
def test_whitening(seed: int, rows: int, size: int) -> None:
    """Also where a group is smaller, and where the rows are too few for a group."""
    torch.manual_seed(seed)
    vectors, order = torch.randn(rows, 14, dtype=torch.float64), torch.randperm(14)
    expected = whitened(vectors.numpy(), order.tolist(), size)
    result = group_whitened(vectors, order, size=size)
    assert result.numpy() == pytest.approx(expected, abs=1e-7)
    result = group_whitened(vectors.float(), order, size=size)
    assert result.numpy() == pytest.approx(expected, abs=1e-4)


def test_the_whitening_matrix_is_a_constant() -> None:
    torch.manual_seed(0)
    vectors, order = torch.randn(8, 6, dtype=torch.float64), torch.randperm(6)
    weights = torch.randn(8, 6, dtype=torch.float64)

    def matrix(group: Tensor) -> Tensor:
        _, scales, right = torch.linalg.svd(group - group.mean(dim=0), full_matrices=False)
        return math.sqrt(8) * right.T @ (right / scales[:, None])

    expected = torch.zeros_like(vectors)
    for group in order.view(2, 3):
        slope = weights[:, group] @ matrix(vectors[:, group])
        expected[:, group] = slope - slope.mean(dim=0)
    given = vectors.requires_grad_()
    (group_whitened(given, order, size=3) * weights).sum().backward()
    assert given.grad.numpy() == pytest.approx(expected.detach().numpy(), abs=1e-8)


@FAMILIES
@pytest.mark.usefixtures("equal_views")
def test_the_loss_of_a_batch(kit_for: KitFor) -> None:
    """Every view has groups of its own."""
    kit = kit_for("whitenedcse", batch_size=9, group_size=5, temperature=1.0)
    method = kit.build().eval()
    stage, batches = batches_of(kit, method)
    weight, bias = (each.detach().double().numpy() for each in method.head.parameters())
    for step in range(3):
        batch = next(batches)
        torch.manual_seed(step)
        loss = method.losses(batch, stage)["contrastive"].item()
        torch.manual_seed(step)
        states = method.embed(batch["contrastive"]).detach().double().numpy()
        orders = [torch.randperm(states.shape[1]).tolist() for _ in range(3)]
        first, *others = [np.tanh(whitened(states, order, 5) @ weight.T + bias) for order in orders]
        expected = sum(info_nce(first, other, 1.0) for other in others)
        assert loss == pytest.approx(expected, rel=1e-4)
