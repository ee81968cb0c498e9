"""Low-rank changes (peft's LoRA) train in the place of an encoder's weights."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from harness.data.revisions import WEIGHTS, trained_folder, trained_name
from harness.encoders.backbone import Encoder
from harness.encoders.low_rank import MARK
from harness.errors import UserError
from harness.manifests import MANIFEST, seal
from harness.plugin.kit import Kit
from harness.training.loop import Trainer
from harness.training.parameters import added, trained_names
from tests.architectures import save

KitFor = Callable[..., Kit]
RANK, ALPHA = 3, 12.0


def trained(kit: Kit) -> tuple[Any, dict[str, torch.Tensor]]:
    """A method after a short training, and its weights before it."""
    torch.manual_seed(0)
    method = kit.build()
    before = {name: value.clone() for name, value in method.state_dict().items()}
    Trainer(method, kit, 0, lambda: 1.0, lambda _: None).run()
    return method, before


def test_only_the_changes_train(kit_for: KitFor) -> None:
    kit = kit_for("simcse", lora_rank=RANK, lora_alpha=ALPHA, batch_size=10, learning_rate=0.1)
    method, before = trained(kit)
    [stage] = kit.declared.stages
    names = set(trained_names(method, stage))
    inside = {name for name in names if name.startswith("encoder.")}
    assert inside
    assert all(MARK in name for name in inside)
    changed = {name for name, value in method.state_dict().items() if not value.equal(before[name])}
    assert changed
    assert changed <= names
    layers, hidden, wide = 2, method.encoder.hidden_size, method.encoder.model.config
    sizes = 4 * (hidden + hidden) + 2 * (hidden + wide.intermediate_size)
    counted = sum(value.numel() for name, value in method.named_parameters() if name in inside)
    assert counted == layers * RANK * sizes
    outside = [value for name, value in method.named_parameters() if name not in inside]
    pretrained = sum(value.numel() for value in method.encoder.model.parameters()) - counted
    assert added(method) == counted + sum(value.numel() for value in outside) - pretrained


def test_what_a_layer_computes(kit_for: KitFor) -> None:
    """W + alpha / rank * B A, in float64; before training B is 0."""
    encoder = kit_for("simcse", lora_rank=RANK, lora_alpha=ALPHA).encoder()
    layer = encoder.model.encoder.layer[0].attention.self.query
    states = torch.randn(5, encoder.hidden_size)
    first, second = layer.lora_A["default"].weight, layer.lora_B["default"].weight
    plain = layer.base_layer
    with torch.no_grad():
        torch.testing.assert_close(layer(states), plain(states))
        second.normal_()
        whole = plain.weight.double() + ALPHA / RANK * second.double() @ first.double()
        expected = states.double() @ whole.T + plain.bias.double()
        torch.testing.assert_close(layer(states).double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_a_decoder(kit_for: KitFor, tmp_path: Path) -> None:
    """Its layers have other names, and its weights are kept in bf16."""
    encoder = str(save("Qwen3", tmp_path, dtype="bfloat16"))
    kit = kit_for(
        "simcse", encoder=encoder, setting="sup", lora_rank=RANK, batch_size=10, precision="bf16"
    )
    method, before = trained(kit)
    changed = {name for name, value in method.state_dict().items() if not value.equal(before[name])}
    assert any("mlp.down_proj.lora_B" in name for name in changed)
    assert all(MARK in name for name in changed if name.startswith("encoder."))
    types = {name: value.dtype for name, value in method.named_parameters()}
    assert {kind for name, kind in types.items() if MARK in name} == {torch.float32}
    assert {kind for name, kind in types.items() if "base_layer" in name} == {torch.bfloat16}


def test_a_frozen_encoder_is_refused(kit_for: KitFor) -> None:
    with pytest.raises(UserError, match="lora_rank: dcpcse trains no weights of its encoder"):
        kit_for("dcpcse", lora_rank=RANK).build()


def test_without_peft(kit_for: KitFor, monkeypatch: pytest.MonkeyPatch) -> None:
    kit = kit_for("simcse", lora_rank=RANK)
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(UserError, match=r"pip install 'harness-embeddings\[lora\]'"):
        kit.build()


def test_no_encoder_for_another_trial(kit_for: KitFor) -> None:
    name, key = kit_for("simcse").config.encoder, "0" * 32
    folder = trained_folder(key)
    folder.mkdir(parents=True)
    save_file({f"layer.query{MARK}A.default.weight": torch.zeros(1)}, folder / WEIGHTS)
    seal(folder / MANIFEST, [folder / WEIGHTS])
    with pytest.raises(UserError, match="has trained low-rank changes"):
        Encoder(trained_name(name, key))
