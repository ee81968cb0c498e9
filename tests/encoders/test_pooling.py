"""Poolings and heads against their formulas.

plain_encoders.md, section 1; diffcse.md, section 1.1.
"""

from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from torch import nn
from transformers import AutoModel, BertConfig, BertModel

from harness.choices import Pooling
from harness.encoders.backbone import Encoder
from harness.encoders.pooling import pooled
from harness.modules.heads import BatchNormHead, TanhHead
from tests.rows_and_models import text

LENGTHS = [7, 4, 2]


def expected(states: list[np.ndarray]) -> np.ndarray:
    """The mean over real tokens of the mean over layers, token by token."""
    rows = []
    for row, length in enumerate(LENGTHS):
        tokens = [
            sum(layer[row, position] for layer in states) / len(states)
            for position in range(length)
        ]
        rows.append(sum(tokens) / length)
    return np.array(rows)


def hidden_states(folder: Path) -> list[np.ndarray]:
    model = AutoModel.from_pretrained(
        folder, dtype=torch.float64, attn_implementation="eager"
    ).eval()
    batch = text(LENGTHS)
    output = model(
        input_ids=batch.input_ids, attention_mask=batch.attention_mask, output_hidden_states=True
    )
    return [states.detach().numpy() for states in output.hidden_states]


def test_every_pooling(tmp_path: Path) -> None:
    """Four layers tell all of them apart."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=30, hidden_size=8, num_hidden_layers=4, num_attention_heads=2,
        intermediate_size=8,
    )  # fmt: skip
    BertModel(config).save_pretrained(tmp_path)
    states, encoder = hidden_states(tmp_path), Encoder(str(tmp_path)).double().eval()
    averaged = {
        "mean": (4,), "first-last": (1, 4), "first-last-embeddings": (0, 4), "last-two": (3, 4),
    }  # fmt: skip
    wanted = {
        name: expected([states[layer] for layer in layers]) for name, layers in averaged.items()
    }
    wanted["cls"] = states[-1][:, 0]
    assert {*wanted} == set(get_args(Pooling))
    for pooling, vectors in wanted.items():
        found = pooled(encoder, text(LENGTHS), pooling).detach().numpy()
        assert np.abs(found - vectors).max() < 1e-10, pooling


def test_batch_norm_head_against_its_formula() -> None:
    torch.manual_seed(1)
    head = BatchNormHead(6).double().train()
    first, second = (
        layer.weight.detach().numpy() for layer in head if isinstance(layer, nn.Linear)
    )
    assert first.shape == (12, 6)
    assert second.shape == (6, 12)
    states = np.random.default_rng(0).normal(size=(10, 6)) * 50
    scale, shift = (np.random.default_rng(seed).normal(size=12) for seed in (1, 2))
    affine = next(layer for layer in head if isinstance(layer, nn.BatchNorm1d))
    with torch.no_grad():
        affine.weight.copy_(torch.tensor(scale))
        affine.bias.copy_(torch.tensor(shift))

    def normalised(x: np.ndarray) -> np.ndarray:
        return (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0) + 1e-5)

    wanted = normalised(np.maximum(normalised(states @ first.T) * scale + shift, 0) @ second.T)
    assert np.abs(head(torch.tensor(states)).detach().numpy() - wanted).max() < 1e-10


def test_tanh_head_against_its_formula() -> None:
    torch.manual_seed(2)
    head = TanhHead(5).double()
    states = np.random.default_rng(3).normal(size=(4, 5))
    weight, bias = head.linear.weight.detach().numpy(), head.linear.bias.detach().numpy()
    assert np.array_equal(bias, np.zeros(5))
    assert (
        np.abs(head(torch.tensor(states)).detach().numpy() - np.tanh(states @ weight.T)).max()
        < 1e-12
    )


@pytest.mark.parametrize("head", [TanhHead, BatchNormHead])
def test_heads_start_from_normal_002(head: type[nn.Module]) -> None:
    torch.manual_seed(3)
    for layer in head(128).modules():
        if isinstance(layer, nn.Linear):
            assert layer.weight.std().item() == pytest.approx(0.02, rel=0.03)
