"""The contrastive loss against its formula in float64, one row and one candidate at a time."""

import numpy as np
import pytest
import torch
from torch import Tensor

from harness.losses.info_nce import info_nce
from tests.methods import references


def vectors(seed: int, rows: int = 5, width: int = 7) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, width)) * 3


def tensors(*arrays: np.ndarray) -> list[Tensor]:
    return [torch.tensor(array, dtype=torch.float32) for array in arrays]


def reference(arrays: list[np.ndarray], temperature: float, own_weight: float = 0.0) -> float:
    """Anchors, positives, and hard negatives where there are any."""
    return references.info_nce(arrays[0], np.concatenate(arrays[1:]), temperature, own_weight)


@pytest.mark.parametrize("temperature", [0.05, 0.3, 1.0])
@pytest.mark.parametrize("rows", [(5, 5), (5, 5, 5), (5, 5, 2), (5, 5, 13)])
def test_all_positives_and_hard_negatives_are_candidates(
    rows: tuple[int, ...], temperature: float
) -> None:
    """There may be more or fewer than rows, as in ESimCSE's queue. Anchors look for positives."""
    arrays = [vectors(seed, count) for seed, count in enumerate(rows)]
    loss = info_nce(*tensors(*arrays), temperature=temperature).item()
    assert loss == pytest.approx(reference(arrays, temperature), rel=1e-5)
    turned = [arrays[1], arrays[0], *arrays[2:]]
    assert loss != pytest.approx(reference(turned, temperature), rel=1e-3)


@pytest.mark.parametrize("weight", [1.5, -2.0])
def test_hard_negative_weight_is_on_the_own_one_only(weight: float) -> None:
    arrays = [vectors(0), vectors(1), vectors(2)]
    options = {"temperature": 0.3, "hard_negative_weight": weight}
    found = info_nce(*tensors(*arrays), **options).item()
    assert found == pytest.approx(reference(arrays, 0.3, weight), rel=1e-5)
    assert found != pytest.approx(reference(arrays, 0.3), rel=1e-2)
    plain = tensors(*arrays[:2])
    assert info_nce(*plain, **options).equal(info_nce(*plain, temperature=0.3)), "there are none"


@pytest.mark.parametrize("count", [2, 3])
def test_gradient_against_finite_differences(count: int) -> None:
    arrays = [torch.tensor(vectors(seed, rows=3, width=4)) for seed in range(count)]
    leaves = [array.clone().requires_grad_() for array in arrays]
    info_nce(*leaves, temperature=0.2).backward()
    for which, array in enumerate(arrays):

        def looped(changed: Tensor, which: int = which) -> float:
            moved = [*arrays[:which], changed, *arrays[which + 1 :]]
            return reference([each.numpy() for each in moved], 0.2)

        references.has_slopes(leaves[which].grad, looped, array, np.ndindex(*array.shape), abs=1e-7)


def test_float32_also_under_autocast() -> None:
    """bf16 would round cosines to steps of 0.004, which over the temperature 0.05 are 0.08."""
    arrays = [vectors(7, 16, 24), vectors(8, 16, 24)]
    with torch.autocast("cpu", torch.bfloat16):
        loss = info_nce(*tensors(*arrays), temperature=0.05)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(reference(arrays, 0.05), rel=1e-5)
