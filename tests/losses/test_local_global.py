"""The loss of IS-BERT against its formula in float64."""

import math

import pytest
import torch

from harness.losses.local_global import local_global_loss


def test_formula() -> None:
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
