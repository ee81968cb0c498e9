"""The options of DCPCSE's second version, PromCSE, against dcpcse.md, sections 1.5 and 2.

The reference is a plain loop over rows of a model of transformers, in float64.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import harness
from harness.data.batching import TextBatch
from harness.plugin.kit import Kit
from harness.training.loop import Trainer
from methods.dcpcse.method import energy_hinge
from tests.families import FAMILIES
from tests.losses.test_info_nce import vectors
from tests.methods.references import (
    KitFor,
    alone,
    array,
    behind_prompts,
    cosine,
    first_batch,
    has_slopes,
    headed,
    plain_model,
)
from tests.methods.test_dcpcse import LENGTH, WIDTH, build

LAYERS, HEADS = 2, 4
TYPES = ["deep", "layer-shared", "input-layer"]
STEPS, RATE = 3, 0.01


def sentence_vector(model: Any, prompts: str, table: Tensor, ids: Tensor) -> Tensor:
    """The last state at [CLS] of one sentence, (H,), with a table of prompts of this type."""
    if prompts == "input-layer":
        words = model.get_input_embeddings().weight[ids]
        embedded, mask = torch.cat([table, words])[None], torch.ones(1, LENGTH + len(ids))
        return model(inputs_embeds=embedded, attention_mask=mask).last_hidden_state[0, LENGTH]
    return behind_prompts(model, table.view(LENGTH, -1, 2, HEADS, WIDTH // HEADS), ids)[0]


def loss_of(vectors: Tensor, config: Any) -> Tensor:
    """The contrastive and the hinge loss of triplets, (3 * items, H), one cosine at a time."""
    anchors, positives, negatives = (vectors[view::3] for view in range(3))
    total = torch.zeros((), dtype=torch.float64)
    for row, anchor in enumerate(anchors):
        cosines = [
            functional.cosine_similarity(anchor, other, dim=0) for other in [*positives, *negatives]
        ]
        logits = torch.stack(cosines) / config.temperature
        total = total + torch.logsumexp(logits, 0) - logits[row]
        others = torch.stack([each for place, each in enumerate(cosines) if place != row])
        hinge = (config.hinge_margin - cosines[row] + others.max()).clamp(min=0)
        total = total + config.hinge_weight * hinge
    return total / len(anchors)


def trained(kit: Kit, method: Any) -> list[tuple[TextBatch, float]]:
    """The batches with which the method was trained, and the loss of each of them."""
    steps, losses = [], method.losses

    def recorded(batch: Any, stage: Any) -> Any:
        values = losses(batch, stage)
        total = sum(stage.losses[name] * loss.item() for name, loss in values.items())
        steps.append((batch["contrastive"], total))
        return values

    method.losses = recorded
    Trainer(method, kit, 0, evaluate=lambda: 1.0, report=lambda _: None).run()
    return steps


@pytest.mark.slow
@FAMILIES
@pytest.mark.parametrize("prompts", TYPES)
def test_three_steps(
    kit_for: KitFor, still: Callable[[str], str], family: str, prompts: str
) -> None:
    """Prompts and head after three steps with both losses: AdamW, linear decay, clipping at 1."""
    kit = kit_for(
        "dcpcse", setting="sup", encoder=still(family), prompts=prompts, prompt_length=LENGTH,
        hinge_weight=10.0, hinge_margin=0.3, temperature=0.3, learning_rate=RATE,
        max_steps=STEPS, batch_size=4, precision="fp32",
    )  # fmt: skip
    method = build(kit)
    [table] = method.prompts.parameters()
    parts = [table, method.head.linear.weight, method.head.linear.bias]
    copies = [part.detach().double().requires_grad_() for part in parts]
    starts = [part.detach().clone() for part in parts]
    model, front = plain_model(kit), LENGTH if prompts == "input-layer" else 0
    optimiser = torch.optim.AdamW(copies, lr=RATE, weight_decay=0)
    steps = trained(kit, method)
    assert len(steps) == STEPS
    for step, (batch, ours) in enumerate(steps):
        optimiser.param_groups[0]["lr"] = RATE * (1 - step / STEPS)
        states = [sentence_vector(model, prompts, copies[0], ids[front:]) for ids in alone(batch)]
        loss = loss_of(torch.tanh(functional.linear(torch.stack(states), *copies[1:])), kit.config)
        assert ours == pytest.approx(loss.item(), rel=1e-4)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(copies, 1.0)
        optimiser.step()
    for part, copy, start in zip(parts, copies, starts, strict=True):
        assert (part - start).abs().mean() > RATE
        difference = (part.detach() - copy.detach()).abs()
        # AdamW divides by the size of a gradient, so one that is nearly 0 may be rounding alone.
        assert difference.mean() < RATE / 100
        assert difference.max() < RATE / 10


@FAMILIES
@pytest.mark.parametrize(
    ("prompts", "setting"),
    [("deep", "unsup"), ("deep", "sup"), ("layer-shared", "unsup"), ("input-layer", "unsup")],
)
def test_test_time_vectors(kit_for: KitFor, prompts: str, setting: str) -> None:
    """The state at [CLS] without dropout: without labels no head, with labels behind the head.

    Rows have several lengths, and positions start at the prompt length (RoBERTa: plus 2).
    """
    kit = kit_for("dcpcse", prompts=prompts, setting=setting, prompt_length=LENGTH)
    method = build(kit).eval()
    [table] = method.prompts.parameters()
    batch = first_batch(kit, method)
    model, front = plain_model(kit), LENGTH if prompts == "input-layer" else 0
    vectors = [
        sentence_vector(model, prompts, table.detach().double(), ids[front:])
        for ids in alone(batch)
    ]
    expected = array(torch.stack(vectors))
    if setting == "sup":
        expected = headed(method, expected)
    for embed in (method.embed, method.embed_dev):
        np.testing.assert_allclose(array(embed(batch)), expected, atol=1e-5)


@FAMILIES
def test_each_row_and_layer_has_its_own_dropout_of_shared_prompts(kit_for: KitFor) -> None:
    method = build(kit_for("dcpcse", prompts="layer-shared", prompt_length=LENGTH))
    drawn = method.prompts(400)
    for keys in (*drawn.keys, *drawn.values):
        assert abs((keys == 0).double().mean().item() - 0.1) < 0.01
        assert not torch.equal(keys[0] == 0, keys[1] == 0)
    assert not torch.equal(drawn.keys[0] == 0, drawn.keys[1] == 0)
    drawn = method.eval().prompts(2)
    assert torch.equal(drawn.keys[0], drawn.keys[1])
    assert torch.equal(drawn.values[0], drawn.values[1])
    assert not torch.equal(drawn.keys[0], drawn.values[0])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("values", "prompts"),
    [
        ({}, 2 * LAYERS * WIDTH * LENGTH),
        ({"prompts": "layer-shared"}, 2 * WIDTH * LENGTH),
        ({"prompts": "input-layer"}, WIDTH * LENGTH),
        ({"setting": "sup", "hinge_weight": 10.0}, 2 * LAYERS * WIDTH * LENGTH),
    ],
)
def test_a_run(tiny_encoder: Path, tmp_path: Path, values: dict[str, Any], prompts: int) -> None:
    """From the values to a record, in this process; the head counts as added, too."""
    record = harness.run(
        "dcpcse", store=tmp_path / "trials", encoder=str(tiny_encoder), prompt_length=LENGTH,
        suite="graded", sentences="graded-sentences", triplets="graded-triplets", batch_size=8,
        max_steps=4, evaluation_interval=2, **values,
    )  # fmt: skip
    assert (record.status, record.steps) == ("finished", 4)
    assert record.parameters_added == prompts + WIDTH * WIDTH + WIDTH
    assert record.test


def terms(
    anchors: np.ndarray, positives: np.ndarray, negatives: np.ndarray, margin: float
) -> list[float]:
    """The sum of each anchor, before the mean (dcpcse.md, section 2)."""
    hinges = []
    for row, anchor in enumerate(anchors):
        others = [cosine(anchor, each) for place, each in enumerate(positives) if place != row]
        others += [cosine(anchor, each) for each in negatives]
        hinges.append(max(0.0, margin - cosine(anchor, positives[row]) + max(others)))
    return hinges


@pytest.mark.parametrize("margin", [0.1, 0.2, 1.5])
def test_loss_and_gradient(margin: float) -> None:
    """The gradient is that of central differences. Terms of all kinds are among the rows."""
    anchors, negatives = vectors(0, rows=9, width=3), vectors(2, rows=9, width=3)
    positives = 0.4 * vectors(1, rows=9, width=3) + anchors
    arrays = [anchors, positives, negatives]
    hinges = terms(anchors, positives, negatives, margin)
    assert min(hinges) == 0.0 or margin > 1
    assert max(hinges) > 0
    tensors = [torch.tensor(array, requires_grad=True) for array in arrays]
    loss = energy_hinge(*tensors, margin=margin)
    loss.backward()
    assert loss.item() == pytest.approx(np.mean(hinges), rel=1e-12)
    for which, tensor in enumerate(tensors):

        def looped(changed: Tensor, which: int = which) -> float:
            moved = [*arrays[:which], changed.numpy(), *arrays[which + 1 :]]
            return float(np.mean(terms(*moved, margin)))

        at = torch.tensor(arrays[which])
        has_slopes(tensor.grad, looped, at, np.ndindex(*at.shape), abs=1e-8)


def test_the_highest_may_be_the_positive_or_the_hard_negative_of_another_row() -> None:
    one, two = [1.0, 0.0], [0.0, 1.0]
    anchors = torch.tensor([one, two])
    close, far = torch.tensor([one, two]), torch.tensor([two, one])
    away = -anchors
    # Row 0 meets cosines of 1 with its positive, and of 1, 0 or less with all others.
    assert energy_hinge(anchors, close, far, margin=0.25).item() == pytest.approx(0.25)
    assert energy_hinge(anchors, far, away, margin=0.25).item() == pytest.approx(1.25)
    assert energy_hinge(anchors, close, away, margin=0.25).item() == 0.0


def test_autocast_changes_nothing() -> None:
    tensors = [torch.tensor(vectors(seed), dtype=torch.float32) for seed in range(3)]
    exact = energy_hinge(*tensors, margin=0.2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert energy_hinge(*tensors, margin=0.2).equal(exact)
