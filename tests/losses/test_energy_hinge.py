"""The hinge loss of PromCSE against its formula in float64, one cosine at a time."""

import numpy as np
import pytest
import torch

from harness.losses.energy_hinge import energy_hinge
from tests.losses.test_info_nce import cosine, vectors


def terms(
    anchors: np.ndarray, positives: np.ndarray, negatives: np.ndarray, margin: float
) -> list[float]:
    """What each anchor adds up to, before the mean (dcpcse.md, section 2)."""
    found = []
    for row, anchor in enumerate(anchors):
        others = [cosine(anchor, each) for place, each in enumerate(positives) if place != row]
        others += [cosine(anchor, each) for each in negatives]
        found.append(max(0.0, margin - cosine(anchor, positives[row]) + max(others)))
    return found


@pytest.mark.parametrize("margin", [0.1, 0.2, 1.5])
def test_loss_and_gradient(margin: float) -> None:
    """The gradient is that of central differences. Terms of all kinds are among the rows."""
    anchors, negatives = vectors(0, rows=9, width=3), vectors(2, rows=9, width=3)
    positives = 0.4 * vectors(1, rows=9, width=3) + anchors
    arrays = [anchors, positives, negatives]
    each = terms(anchors, positives, negatives, margin)
    assert min(each) == 0.0 or margin > 1
    assert max(each) > 0
    tensors = [torch.tensor(array, requires_grad=True) for array in arrays]
    loss = energy_hinge(*tensors, margin=margin)
    loss.backward()
    assert loss.item() == pytest.approx(np.mean(each), rel=1e-12)
    for array, tensor in zip(arrays, tensors, strict=True):
        expected = np.zeros_like(array)
        for place in np.ndindex(*array.shape):
            around = []
            for step in (1e-6, -1e-6):
                array[place] += step
                around.append(np.mean(terms(anchors, positives, negatives, margin)))
                array[place] -= step
            expected[place] = (around[0] - around[1]) / 2e-6
        assert tensor.grad is not None
        np.testing.assert_allclose(tensor.grad.numpy(), expected, atol=1e-8)


def test_the_highest_may_be_the_positive_or_the_hard_negative_of_another_row() -> None:
    one, two = [1.0, 0.0], [0.0, 1.0]
    anchors = torch.tensor([one, two])
    close, far = torch.tensor([one, two]), torch.tensor([two, one])
    away = -anchors
    # Row 0 meets cosines of 1 with its positive, and of 1, 0 or less with all others.
    assert energy_hinge(anchors, close, far, margin=0.25).item() == pytest.approx(0.25)
    assert energy_hinge(anchors, far, away, margin=0.25).item() == pytest.approx(1.25)
    assert energy_hinge(anchors, close, away, margin=0.25).item() == 0.0


def test_autocast_changes_nothing() -> None:
    tensors = [torch.tensor(vectors(seed), dtype=torch.float32) for seed in range(3)]
    exact = energy_hinge(*tensors, margin=0.2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert energy_hinge(*tensors, margin=0.2).equal(exact)
