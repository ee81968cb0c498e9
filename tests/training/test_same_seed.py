"""The same seed gives the same gradients, bit for bit: here on a CPU, and on a GPU where one is."""

from pathlib import Path
from typing import Any

import pytest
import torch

from harness.device import device, in_precision
from harness.training.feeding import made, stage_streams
from harness.training.parameters import trainable
from harness.training.seeds import seed_everything
from tests.kits import KitFor
from tests.training.test_synchronisation import kit_on_device, settings


@pytest.mark.slow
@pytest.mark.parametrize(("name", "setting", "values"), list(settings()))
def test_two_runs_have_equal_gradients(
    kit_for: KitFor, name: str, setting: str, values: dict[str, Any], triplets: Path, pairs: Path
) -> None:
    # On a GPU attention is fused in bf16.
    precision = "bf16" if device().type == "cuda" else "fp32"
    kit = kit_on_device(kit_for, name, setting, triplets, pairs, precision=precision, **values)
    one, other = (gradients(kit) for _ in range(2))
    assert one.keys() == other.keys()
    assert len(one) > 0
    assert not [part for part, value in one.items() if not torch.equal(value, other[part])]


def test_attention_never_is_cudnns() -> None:
    """Its backward pass is not deterministic, and torch would prefer it on some GPUs."""
    torch.backends.cuda.enable_cudnn_sdp(True)
    seed_everything(7)
    assert not torch.backends.cuda.cudnn_sdp_enabled()


def gradients(kit: Any) -> dict[str, torch.Tensor]:
    """Gradients of the first step of each stage, by stage and parameter."""
    seed_everything(7)
    method = kit.build().to(kit.device)
    grads = {}
    for stage in kit.declared.stages:
        trainable(method, stage)
        prepared = next(made(method, stage, stage_streams(method, kit, stage, 0), 0))
        batches = {key: batch.to(kit.device) for key, batch in prepared.items()}
        method.train().zero_grad()
        with in_precision(str(kit.config.precision), kit.device):
            losses = method.losses(batches, stage)
        torch.stack([losses[key].float() for key in stage.losses]).sum().backward()
        for name, parameter in method.named_parameters():
            if parameter.grad is not None:
                grads[f"{stage.name}: {name}"] = parameter.grad.clone()
    return grads
