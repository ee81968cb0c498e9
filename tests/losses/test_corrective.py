"""Corrective language modelling against its formula in float64 numpy (diffcse.md, section 2)."""

import math
from typing import cast

import numpy as np
import pytest
import torch
from torch import nn

from harness.data.batching import TextBatch
from harness.encoders.masked_lm import VocabularyHead
from harness.losses.corrective import CorrectiveHead, corrective_loss
from harness.views.corruption import Edited

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
