"""The losses of methods against their definitions in float64."""

import math
from typing import cast

import numpy as np
import pytest
import torch
from torch import nn

from harness.data.batching import TextBatch
from harness.encoders.masked_lm import VocabularyHead
from harness.losses.contrastive_tension import tension
from harness.losses.corrective import CorrectiveHead, corrective_loss
from harness.losses.local_global import local_global_loss
from harness.losses.nt_xent import nt_xent
from harness.losses.scored_pairs import cosent, cosine_mse
from harness.views.corruption import Edited

# The loss of contrastive tension against its formula in float64.


def test_formula_of_contrastive_tension() -> None:
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


# The loss of IS-BERT against its formula in float64.


def test_formula_of_isbert() -> None:
    torch.manual_seed(0)
    local = torch.randn(3, 4, 5, dtype=torch.float64)
    whole = torch.randn(3, 5, dtype=torch.float64)
    lengths = [4, 2, 3]
    mask = torch.tensor([[int(at < length) for at in range(4)] for length in lengths])
    own, others = [], []
    for row, length in enumerate(lengths):
        for token in range(length):
            for sentence in range(3):
                score = float(local[row, token] @ whole[sentence])
                if row == sentence:
                    own.append(math.log(2) - math.log1p(math.exp(-score)))
                else:
                    others.append(math.log1p(math.exp(score)) - math.log(2))
    expected = sum(others) / len(others) - sum(own) / len(own)
    assert local_global_loss(local, mask, whole).item() == pytest.approx(expected, rel=1e-12)
    local[1, 2:] = 99.0  # padding
    assert local_global_loss(local, mask, whole).item() == pytest.approx(expected, rel=1e-12)


def test_zero_where_nothing_is_known() -> None:
    zeros = torch.zeros(2, 3, 4, dtype=torch.float64)
    found = local_global_loss(zeros, torch.ones(2, 3), zeros[:, 0])
    assert found.item() == pytest.approx(0, abs=1e-12)


def test_one_sentence_has_no_others() -> None:
    local = torch.ones(1, 2, 3, dtype=torch.float64)
    found = local_global_loss(local, torch.ones(1, 2), local[:, 0])
    assert found.item() == pytest.approx(math.log1p(math.exp(-3)) - math.log(2))


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


# Corrective language modelling against its formula in float64 numpy (diffcse.md, section 2).

PIECES, WIDTH = 7, 6


def head() -> CorrectiveHead:
    torch.manual_seed(0)
    return CorrectiveHead(cast("VocabularyHead", nn.Linear(WIDTH, PIECES)), WIDTH)


def test_loss_mixes_copying_and_the_vocabulary() -> None:
    corrective = head()
    generator = np.random.default_rng(0)
    states = generator.normal(size=(3, 5, WIDTH))
    read, originals = (generator.integers(0, PIECES, size=(3, 5)) for _ in range(2))
    originals[:, ::2] = read[:, ::2]
    real = np.arange(5) < np.array([[5], [3], [4]])
    matrix, bias = (value.detach().double().numpy() for value in corrective.vocabulary.parameters())
    gate_row, gate_bias = (
        value.detach().double().numpy() for value in corrective.gate.parameters()
    )
    total = 0.0
    for row, position in np.argwhere(real):
        state = states[row, position]
        gate = 1 / (1 + math.exp(-(gate_row[0] @ state + gate_bias[0])))
        powers = np.exp(matrix @ state + bias)
        copied = float(read[row, position] == originals[row, position])
        total -= math.log(
            gate * copied + (1 - gate) * powers[originals[row, position]] / powers.sum()
        )
    batch = TextBatch(torch.tensor(read), torch.tensor(real).long(), torch.arange(3))
    edited = Edited(batch, torch.zeros(3, 5), torch.zeros(3))
    found = corrective_loss(
        corrective, torch.tensor(states).float(), torch.tensor(originals), edited
    )
    assert found.item() == pytest.approx(total / real.sum(), rel=1e-5)


def test_a_sure_copy_costs_nothing_and_a_sure_gate_is_finite() -> None:
    corrective = head()
    with torch.no_grad():
        corrective.gate.bias.fill_(200)
    states = torch.randn(2, WIDTH, requires_grad=True)
    read, wanted = torch.tensor([3, 3]), torch.tensor([3, 4])
    copied, written = corrective(states, read, wanted)
    assert copied.item() == pytest.approx(0, abs=1e-6)
    assert written.item() < -190
    (copied + written).backward()
    assert states.grad is not None
    assert states.grad.isfinite().all()


def test_gate_and_vocabulary_learn() -> None:
    corrective = head()
    corrective(
        torch.randn(4, WIDTH), torch.tensor([1, 2, 3, 4]), torch.tensor([1, 2, 5, 6])
    ).sum().backward()
    assert all(
        value.grad is not None and value.grad.abs().max() > 0 for value in corrective.parameters()
    )
