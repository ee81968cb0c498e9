"""The same seed gives the same gradients, bit for bit: here on a CPU, and on a GPU where one is."""

from pathlib import Path
from typing import Any

import pytest
import torch

from harness.device import device, in_precision
from harness.plugin import registry
from harness.training.feeding import made
from harness.training.parameters import trainable
from harness.training.seeds import seed_everything
from harness.training.stages import stage_streams
from tests.kits import KitFor
from tests.training.test_synchronisation import settings


@pytest.mark.slow
@pytest.mark.parametrize(("name", "setting"), list(settings()))
def test_two_runs_have_equal_gradients(
    kit_for: KitFor, name: str, setting: str, triplets: Path, pairs: Path
) -> None:
    fields = registry.load(name).method.config_type.model_fields
    corpora = {"pairs": triplets if name == "clsr" else pairs, "corpus": triplets}
    given = {key: str(path) for key, path in corpora.items() if key in fields}
    if name == "diffaug":
        given["batch_size"] = 4  # it accumulates batches of a small corpus
    if device().type == "cuda" and "precision" in fields:
        given["precision"] = "bf16"  # in which attention is fused
    kit = kit_for(name, setting=setting, **given)
    kit.device = device()
    one, other = (gradients(kit) for _ in range(2))
    assert one.keys() == other.keys()
    assert len(one) > 0
    assert not [part for part, value in one.items() if not torch.equal(value, other[part])]


def gradients(kit: Any) -> dict[str, torch.Tensor]:
    """Of the first step of each stage, by stage and parameter."""
    seed_everything(7)
    method = kit.build().to(kit.device)
    found = {}
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
                found[f"{stage.name}: {name}"] = parameter.grad.clone()
    return found
