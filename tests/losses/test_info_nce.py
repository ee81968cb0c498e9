"""The contrastive loss against its formula in float64, one row and one candidate at a time."""

import math

import numpy as np
import pytest
import torch

from harness.losses.info_nce import info_nce


def cosine(first: np.ndarray, second: np.ndarray) -> float:
    return float(first @ second / math.sqrt(float(first @ first) * float(second @ second)))


def reference(
    anchors: np.ndarray,
    positives: np.ndarray,
    negatives: np.ndarray | None,
    temperature: float,
    own_weight: float = 0.0,
) -> float:
    """The mean over i of the cross entropy of row i with target i (simcse.md, section 1.2).

    The row holds cos(z1_i, z2_j) / temperature, then cos(z1_i, z3_j) / temperature. `own_weight`
    is added to that of the own hard negative (simcse.md, section 2.2).
    """
    total = 0.0
    for row in range(len(anchors)):
        similarities = [cosine(anchors[row], candidate) / temperature for candidate in positives]
        if negatives is not None:
            similarities += [
                cosine(anchors[row], candidate) / temperature for candidate in negatives
            ]
            if own_weight:
                similarities[len(positives) + row] += own_weight
        total += math.log(sum(math.exp(value) for value in similarities)) - similarities[row]
    return total / len(anchors)


def vectors(seed: int, rows: int = 5, width: int = 7) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, width)) * 3


def tensors(*arrays: np.ndarray) -> list[torch.Tensor]:
    return [torch.tensor(array, dtype=torch.float32) for array in arrays]


@pytest.mark.parametrize("temperature", [0.05, 0.3, 1.0])
def test_in_batch_negatives(temperature: float) -> None:
    first, second = vectors(0), vectors(1)
    expected = reference(first, second, None, temperature)
    assert info_nce(*tensors(first, second), temperature=temperature).item() == pytest.approx(
        expected, rel=1e-5
    )


@pytest.mark.parametrize("temperature", [0.05, 0.3])
def test_every_hard_negative_of_the_batch_is_a_candidate(temperature: float) -> None:
    arrays = vectors(0), vectors(1), vectors(2)
    expected = reference(*arrays, temperature)
    assert info_nce(*tensors(*arrays), temperature=temperature).item() == pytest.approx(
        expected, rel=1e-5
    )
    assert expected != pytest.approx(reference(arrays[0], arrays[1], None, temperature), rel=1e-2)


@pytest.mark.parametrize("weight", [1.5, -2.0])
def test_hard_negative_weight_is_on_the_own_one_only(weight: float) -> None:
    arrays = vectors(0), vectors(1), vectors(2)
    expected = reference(*arrays, 0.3, weight)
    found = info_nce(*tensors(*arrays), temperature=0.3, hard_negative_weight=weight)
    assert found.item() == pytest.approx(expected, rel=1e-5)
    assert expected != pytest.approx(reference(*arrays, 0.3), rel=1e-2)


def test_hard_negative_weight_is_nothing_without_hard_negatives() -> None:
    first, second = tensors(vectors(0), vectors(1))
    plain = info_nce(first, second, temperature=0.3)
    assert info_nce(first, second, temperature=0.3, hard_negative_weight=5.0).equal(plain)


def test_further_negatives_may_be_more_or_fewer_than_rows() -> None:
    """The vectors of ESimCSE's queue are negatives of every row."""
    for count in (2, 13):
        arrays = vectors(0), vectors(1), vectors(2, rows=count)
        assert info_nce(*tensors(*arrays), temperature=0.1).item() == pytest.approx(
            reference(*arrays, 0.1), rel=1e-5
        )


def test_one_direction_only() -> None:
    first, second = vectors(3), vectors(4)
    forward, backward = reference(first, second, None, 0.1), reference(second, first, None, 0.1)
    assert forward != pytest.approx(backward, rel=1e-2)
    assert info_nce(*tensors(first, second), temperature=0.1).item() == pytest.approx(
        forward, rel=1e-5
    )


def test_lengths_of_vectors_do_not_matter() -> None:
    first, second = tensors(vectors(5), vectors(6))
    scaled = info_nce(first * 1000, second * 1e-3, temperature=0.05)
    assert scaled.item() == pytest.approx(
        info_nce(first, second, temperature=0.05).item(), rel=1e-5
    )


def test_all_candidates_equal_gives_log_n() -> None:
    same = torch.ones(6, 4)
    assert info_nce(same, same, temperature=0.05).item() == pytest.approx(math.log(6), rel=1e-6)
    assert info_nce(same, same, same, temperature=0.05).item() == pytest.approx(
        math.log(12), rel=1e-6
    )


@pytest.mark.parametrize("hard", [False, True])
def test_gradient_against_finite_differences(hard: bool) -> None:
    arrays = [vectors(seed, rows=3, width=4) for seed in range(3 if hard else 2)]
    inputs = [tensor.requires_grad_() for tensor in tensors(*arrays)]
    info_nce(*inputs, temperature=0.2).backward()
    step = 1e-6
    for which, array in enumerate(arrays):
        for place in np.ndindex(array.shape):
            ends = []
            for sign in (1, -1):
                moved = [other.copy() for other in arrays]
                moved[which][place] += sign * step
                ends.append(reference(moved[0], moved[1], moved[2] if hard else None, 0.2))
            slope = (ends[0] - ends[1]) / (2 * step)
            assert inputs[which].grad[place].item() == pytest.approx(slope, abs=2e-5)


def test_float32_also_under_autocast() -> None:
    """The loop runs `losses` under bf16 autocast, which would round cosines to steps of 0.004.

    Over the temperature 0.05 these are steps of 0.08.
    """
    arrays = vectors(7, 16, 24), vectors(8, 16, 24)
    with torch.autocast("cpu", torch.bfloat16):
        loss = info_nce(*tensors(*arrays), temperature=0.05)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(reference(*arrays, None, 0.05), rel=1e-5)
