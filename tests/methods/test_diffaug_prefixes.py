"""Prefix modules against diffaug.md, sections 1.1, 1.2, 1.3, 1.4 and 1.10."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel

from harness.data.batching import TextBatch
from harness.encoders.backbone import Encoder
from harness.encoders.families import EncoderFamily
from harness.encoders.reach import KeyValues
from methods.diffaug.prefixes import PrefixModules
from tests.rows_and_models import text

LENGTH, LAYERS, HEADS, WIDTH = 3, 2, 4, 32


@pytest.fixture
def batch() -> TextBatch:
    return text([6, 4, 1])


@pytest.fixture(params=["tiny_encoder", "tiny_roberta"])
def encoder(request: pytest.FixtureRequest) -> Encoder:
    folder: Path = request.getfixturevalue(request.param)
    return Encoder(str(folder)).double().eval()


def modules_of(encoder: Any, **options: Any) -> PrefixModules:
    torch.manual_seed(1)
    modules = PrefixModules(encoder, LENGTH, **options)
    with torch.no_grad():  # large prefixes, as after training
        for parameter in modules.parameters():
            parameter.normal_(std=0.5)
    return modules.double().eval()


def base_shaped() -> Any:
    with torch.device("meta"):
        model = BertModel(BertConfig())
    return SimpleNamespace(hidden_size=768, model=model, family=EncoderFamily("base", model))


def test_parameter_counts_of_bert_base() -> None:
    modules = PrefixModules(base_shaped(), 8)
    sizes = [parameter.numel() for parameter in modules.parameters()]
    assert sum(sizes) == 14_777_088
    assert modules.table.numel() == 12_288
    first, second = modules.networks[0][0], modules.networks[0][2]
    assert first.weight.numel() + first.bias.numel() == 590_592
    assert second.weight.numel() + second.bias.numel() == 14_174_208
    prefix = modules.eval().reach(1, None)["prefix"]
    assert prefix is not None
    assert sum(part.numel() for part in (*prefix.keys, *prefix.values)) == 294_912
    assert prefix.length == 16, "trap 2: the paper's length 8 is of one module"


def test_start_is_small_and_biases_are_zero() -> None:
    modules = PrefixModules(base_shaped(), 8)
    for layer in (modules.networks[0][0], modules.networks[0][2]):
        assert layer.weight.std().item() == pytest.approx(0.02, rel=0.02)
        assert (layer.bias == 0).all()
    prefix = modules.eval().reach(1, None)["prefix"]
    assert prefix is not None
    assert prefix.keys[0].std().item() == pytest.approx(0.006, rel=0.3), (
        "the smaller variance that the paper starts at"
    )


def test_layout_of_keys_and_values(encoder: Encoder) -> None:
    """Slot 2m is the key of layer m, slot 2m+1 its value; a row of the table is a row of each."""
    modules = modules_of(encoder)
    prefix = modules.reach(1, None)["prefix"]
    assert prefix is not None
    network = modules.networks[0]
    rows = modules.table.detach().numpy().reshape(2 * LENGTH, WIDTH)
    inner = np.tanh(rows @ network[0].weight.detach().numpy().T + network[0].bias.detach().numpy())
    made = inner @ network[2].weight.detach().numpy().T + network[2].bias.detach().numpy()
    for layer in range(LAYERS):
        for slot, part in ((2 * layer, prefix.keys[layer]), (2 * layer + 1, prefix.values[layer])):
            expected = made[:, slot * WIDTH : (slot + 1) * WIDTH].reshape(
                2 * LENGTH, HEADS, WIDTH // HEADS
            )
            assert np.abs(part[0].detach().numpy() - expected.transpose(1, 0, 2)).max() < 1e-12


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("padded", [True, False])
def test_a_row_sees_its_module_as_if_the_other_were_masked(
    encoder: Encoder, batch: TextBatch, share: bool, padded: bool
) -> None:
    """The text starts at 2 * LENGTH also when half of the prefix is hidden (trap 8)."""
    if not padded:
        batch = TextBatch(batch.input_ids, torch.ones_like(batch.input_ids), batch.items)
    modules = modules_of(encoder, share_network=share)
    chosen = torch.tensor([0, 1, 1])
    states = encoder(batch, **modules.reach(3, chosen))
    both = modules.reach(3, None)["prefix"]
    assert both is not None
    flags = torch.tensor([[1] * LENGTH + [0] * LENGTH, [0] * LENGTH + [1] * LENGTH])[chosen].bool()
    masked = KeyValues(both.keys, both.values, visible=flags)
    expected = encoder(batch, prefix=masked, position_offset=2 * LENGTH)
    real = batch.attention_mask.bool()
    assert (states[real] - expected[real]).abs().max() < 1e-10
    elsewhere = encoder(batch, prefix=masked, position_offset=LENGTH)
    assert (states[real] - elsewhere[real]).abs().max() > 1e-3, "the offset matters"


def test_without_the_shift_the_text_keeps_its_positions(encoder: Encoder, batch: TextBatch) -> None:
    shifted, plain = modules_of(encoder), modules_of(encoder, shift=False)
    chosen = torch.tensor([0, 1, 1])
    reach = shifted.reach(3, chosen)
    assert plain.reach(3, chosen).get("position_offset") == 0
    states = encoder(batch, **plain.reach(3, chosen))
    expected = encoder(batch, prefix=reach["prefix"])
    assert torch.equal(states, expected)
    assert not torch.allclose(states, encoder(batch, **reach))


def test_a_hidden_module_gets_no_gradient(encoder: Encoder, batch: TextBatch) -> None:
    modules = modules_of(encoder)
    encoder(batch, **modules.reach(3, torch.ones(3, dtype=torch.long)))[:, 0].pow(
        3
    ).sum().backward()
    gradient = modules.table.grad
    assert gradient is not None
    assert (gradient[0] == 0).all()
    assert (gradient[1].abs().amax(dim=1) > 0).all()


def test_every_row_has_its_own_dropout_in_training_only(encoder: Encoder) -> None:
    modules = modules_of(encoder).train()
    prefix = modules.reach(50, torch.zeros(50, dtype=torch.long))["prefix"]
    assert prefix is not None
    keys = prefix.keys[0]
    assert not torch.equal(keys[0], keys[1])
    assert (keys == 0).double().mean().item() == pytest.approx(0.1, abs=0.02)
    calm = modules.eval().reach(2, torch.zeros(2, dtype=torch.long))["prefix"]
    assert calm is not None
    assert torch.equal(calm.keys[0][0], calm.keys[0][1])
