"""Packed linear layers: they give what plain layers give, and leave nothing behind."""

import copy

import pytest
import torch
from torch import nn

from harness.evaluation.embedder import packed_linears


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(7, 24), (3, 5, 24), (2000, 24)])
def test_packed_layers_equal_plain_ones(bias: bool, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(24, 40, bias=bias), nn.ReLU(), nn.Linear(40, 3))
    packed, states = copy.deepcopy(plain), torch.randn(shape)
    with torch.inference_mode(), packed_linears(packed):
        found = packed(states)
    expected = copy.deepcopy(plain).double()(states.double()).float()
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert found.shape == (*shape[:-1], 3)


def test_bf16_works_on_every_processor() -> None:
    """Where oneDNN has no bf16, the plain layers compute it."""
    layer, states = nn.Linear(24, 40), torch.ones(3, 24)
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16), packed_linears(layer):
        found = layer(states)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), layer(states), rtol=0.02, atol=0.02)


def test_layers_train_again_even_after_an_error() -> None:
    layer = nn.Linear(4, 2)
    with pytest.raises(RuntimeError, match="planted"), packed_linears(layer):
        raise RuntimeError("planted")
    layer(torch.ones(1, 4)).sum().backward()
    assert layer.weight.grad is not None


def test_changed_weights_are_packed_anew() -> None:
    layer, states = nn.Linear(4, 2, bias=False), torch.ones(1, 4)
    for value in (1.0, 2.0):
        with torch.no_grad():
            layer.weight.fill_(value)
        with torch.inference_mode(), packed_linears(layer):
            assert layer(states).tolist() == [[4 * value, 4 * value]]
