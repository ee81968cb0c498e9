"""CT against contrastive_tension.md."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from harness.data.batching import TextBatch
from harness.plugin import registry
from harness.plugin.kit import Kit
from harness.plugin.resolution import resolve
from harness.training.loop import Trainer
from harness.training.optimisers import rate_factor
from methods.ct.method import tension
from tests.families import FAMILIES
from tests.methods.references import KitFor, batches_of


def batch_of(method: Any, kit: Kit) -> TextBatch:
    _, batches = batches_of(kit, method)
    return next(batches)["tension"]


def vectors(encoder: Any, texts: TextBatch) -> np.ndarray:
    """The mean of the last states of each row alone, in float64."""
    rows = []
    for ids, length in zip(texts.input_ids, texts.attention_mask.sum(1).tolist(), strict=True):
        states = encoder.model(input_ids=ids[None, :length]).last_hidden_state[0]
        rows.append(states.detach().double().numpy().mean(axis=0))
    return np.array(rows)


@FAMILIES
def test_the_first_of_each_group_meets_itself_and_the_others(kit_for: KitFor) -> None:
    kit = kit_for("ct", batch_size=6, negatives=2)
    torch.manual_seed(0)
    method = kit.build().eval()
    with torch.no_grad():
        for value in method.anchor_encoder.parameters():
            value.add_(0.05 * torch.randn_like(value))
    texts = batch_of(method, kit)
    first, second = vectors(method.anchor_encoder, texts), vectors(method.encoder, texts)
    total = 0.0
    for row in range(6):
        z = first[row - row % 3] @ second[row]
        total += math.log1p(math.exp(-z if row % 3 == 0 else z))
    (stage,) = kit.declared.stages
    found = method.losses({"tension": texts}, stage)["tension"]
    assert found.item() == pytest.approx(total / 6, rel=1e-4)
    assert np.abs(method.embed(texts).detach().numpy() - second).max() < 1e-5


def test_two_encoders_start_equal_and_part(kit_for: KitFor) -> None:
    kit = kit_for("ct", batch_size=4, negatives=1, max_steps=3, learning_rate=1e-3)
    method = kit.build()
    both = method.encoder.parameters(), method.anchor_encoder.parameters()
    pairs = list(zip(*both, strict=True))
    assert all(one is not other and one.equal(other) for one, other in pairs)
    outcome = Trainer(method, kit, 0, lambda: 1.0, lambda _: None).run()
    assert outcome.steps == 3
    assert not any(one.equal(other) for one, other in pairs if one.dim() == 2)


def test_rate_falls_by_a_fifth_until_a_fifth_is_left() -> None:
    steps = [0, 499, 500, 999, 1000, 1500, 2000, 2500, 49_999]
    found = [rate_factor("stepped", step, 0, 50_000) for step in steps]
    assert found == [1.0, 1.0, 0.8, 0.8, 0.6, 0.4, 0.2, 0.2, 0.2]


def test_what_is_declared() -> None:
    plugin = registry.load("ct")
    (stage,) = plugin.method.stages(resolve(plugin, {}))
    assert (stage.optimisation.optimiser, stage.optimisation.schedule) == ("rmsprop", "stepped")
    assert stage.steps(1_000_000) == 50_000


def test_large_products_stay_finite_under_autocast() -> None:
    vectors = torch.full((2, 768), 10.0)
    with torch.autocast("cpu", torch.bfloat16):
        loss = tension(vectors, vectors, torch.tensor([True, False]))
    assert loss.item() == pytest.approx(768 * 100 / 2)


def test_formula_of_the_loss() -> None:
    torch.manual_seed(0)
    first, second = (torch.randn(6, 5, dtype=torch.float64) for _ in range(2))
    same = torch.tensor([True, False, False, True, False, False])
    total = 0.0
    for u, v, positive in zip(first.tolist(), second.tolist(), same.tolist(), strict=True):
        z = sum(a * b for a, b in zip(u, v, strict=True))
        probability = 1 / (1 + math.exp(-z))
        total -= math.log(probability if positive else 1 - probability)
    assert tension(first, second, same).item() == pytest.approx(total / 6, rel=1e-12)
