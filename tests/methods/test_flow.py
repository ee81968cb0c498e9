"""BERT-flow against frozen_maps.md, section 1.

The flow itself is in test_flow_map.py.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from harness.data.batching import TextBatch
from harness.errors import UserError
from harness.plugin.corpus_vectors import corpus_vectors
from harness.plugin.kit import Kit
from harness.training.loop import Trainer
from harness.training.optimisers import ReleasedAdamW
from tests.families import FAMILIES
from tests.methods.references import KitFor, first_texts, moved


@pytest.fixture
def kit(kit_for: KitFor, triplets: Path) -> Kit:
    return kit_for("flow", corpus=str(triplets))


def build(kit: Kit) -> Any:
    torch.manual_seed(0)
    return kit.build()


def items(*numbers: int) -> dict[str, TextBatch]:
    nothing = torch.zeros(3 * len(numbers), 0, dtype=torch.long)
    return {"corpus": TextBatch(nothing, nothing, torch.tensor(numbers), 3)}


@pytest.mark.parametrize("permutation", ["reverse", "invertible"])
def test_the_flow_trains_and_nothing_else(
    kit_for: KitFor, triplets: Path, permutation: str
) -> None:
    """ActNorms, couplings and learned maps."""
    kit = kit_for("flow", corpus=str(triplets), permutation=permutation, max_steps=3)
    method = build(kit)
    names = {name for name, _ in method.named_parameters() if name.startswith("flow.")}
    assert moved(kit, method) == names


@pytest.fixture
def looked_up(kit_for: KitFor, triplets: Path) -> Kit:
    """A flow whose vectors are drawn once, without dropout."""
    return kit_for("flow", corpus=str(triplets), vector_dropout=False)


@FAMILIES
def test_the_loss_is_the_sum_of_the_sides(looked_up: Kit) -> None:
    """frozen_maps.md, section 1.3: for each column, the mean over the items, in float64."""
    method = build(looked_up).eval()
    columns = corpus_vectors(looked_up, looked_up.config.corpus, "first-last", 64)[[4, 2]]
    losses = method.losses(items(4, 2), method.stages(looked_up.config)[0])
    assert losses.keys() == {"bits_per_dimension"}
    flow = method.flow.double()
    width = columns.shape[2]
    total = 0.0
    for column in torch.tensor(columns).double().unbind(1):
        latent, log_determinant = flow(column)
        log_normal = -0.5 * (latent**2 + math.log(2 * math.pi)).sum(1)
        total -= ((log_normal + log_determinant) / (width * math.log(2))).mean().item()
    assert losses["bits_per_dimension"].item() == pytest.approx(total, rel=1e-5)


@pytest.mark.parametrize("permutation", ["reverse", "invertible"])
def test_the_first_column_of_the_first_batch_sets_the_actnorms(
    kit_for: KitFor, triplets: Path, permutation: str
) -> None:
    """Only the first ActNorm gives column 1 mean 0 and variance 1, once (as released)."""
    kit = kit_for("flow", corpus=str(triplets), vector_dropout=False, permutation=permutation)
    method = build(kit).train()
    stage = method.stages(kit.config)[0]
    columns = corpus_vectors(kit, kit.config.corpus, "first-last", 64)
    method.losses(items(4, 2, 7, 5, 1), stage)
    norm = method.flow.steps[0].norm
    chosen = columns[[4, 2, 7, 5, 1]].astype(np.float64)
    shift, scale = -chosen[:, 0].mean(axis=0), 1 / (chosen[:, 0].std(axis=0) + 1e-6)
    np.testing.assert_allclose(norm.bias.detach(), shift, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose((3 * norm.log_scale).exp().detach(), scale, rtol=1e-3)
    moved = (chosen[:, 1] + shift) * scale
    assert np.abs(moved.mean(axis=0)).max() > 0.1, "the second column alone would give 0"
    before = {name: value.clone() for name, value in method.flow.state_dict().items()}
    method.losses(items(0, 3), stage)
    assert all(torch.equal(value, before[name]) for name, value in method.flow.state_dict().items())


@FAMILIES
def test_the_flow_trains_on_vectors_with_dropout(kit: Kit) -> None:
    """The encoder, as released, is in training mode, and gets no gradient."""
    method = build(kit).train()
    batch, stage = first_texts(kit, method, kit.config.corpus), method.stages(kit.config)[0]
    method.losses({"corpus": batch}, stage)  # sets the ActNorms

    def bits(dropout: bool) -> float:
        torch.manual_seed(5)
        method.encoder.train(dropout)
        layers = method.encoder.layers(batch)
        mask = batch.attention_mask[:, :, None]
        vectors = ((layers[1] + layers[-1]) / 2 * mask).sum(1) / mask.sum(1)
        method.encoder.train()
        return 3 * method.flow.bits_per_dimension(vectors.detach()).item()

    torch.manual_seed(5)
    loss = method.losses({"corpus": batch}, stage)["bits_per_dimension"]
    assert loss.item() == pytest.approx(bits(dropout=True), rel=1e-5)
    assert loss.item() != pytest.approx(bits(dropout=False), rel=1e-5)
    loss.backward()
    trained = {name for name, value in method.named_parameters() if value.grad is not None}
    assert {name.split(".")[0] for name in trained} == {"flow"}


@torch.no_grad()
@FAMILIES
@pytest.mark.parametrize("pooling", ["first-last", "mean"])
def test_sentences_are_the_flows_output(kit_for: KitFor, triplets: Path, pooling: str) -> None:
    """First-last vectors ("avg-last-2" is layers 1 and last), or others; without padding."""
    kit = kit_for("flow", corpus=str(triplets), pooling=pooling)
    method = build(kit).train()
    batch = first_texts(kit, method, kit.config.corpus)
    method.losses({"corpus": batch}, method.stages(kit.config)[0])  # sets the ActNorms
    method.eval()
    layers = method.encoder.layers(batch)
    states = (layers[1] + layers[-1]) / 2 if pooling == "first-last" else layers[-1]
    mask = batch.attention_mask[:, :, None]
    expected = method.flow((states * mask).sum(dim=1) / mask.sum(dim=1))[0]
    assert (method.embed(batch) - expected).abs().max() < 1e-4 * expected.abs().max()
    length = int(batch.attention_mask[0].sum())
    alone = batch.replaced(batch.input_ids[:1, :length], batch.attention_mask[:1, :length])
    assert (method.embed(alone) - expected[:1]).abs().max() < 1e-4 * expected.abs().max()


def test_the_released_optimiser(looked_up: Kit) -> None:
    """Three steps in float64: clipping, epsilon 1e-6, no bias correction, decay of everything."""
    method = build(looked_up)
    flow = {id(value): name for name, value in method.flow.named_parameters()}
    steps: list[int] = []
    state: dict[str, tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = {}

    def before(adamw: torch.optim.Optimizer, *_: Any) -> None:
        assert isinstance(adamw, ReleasedAdamW)
        parameters = [part for group in adamw.param_groups for part in group["params"]]
        assert {id(part) for part in parameters} == flow.keys()
        norm = sum(float(part.grad.double().square().sum()) for part in parameters) ** 0.5
        assert norm <= 1 + 1e-5
        for part in parameters:
            name, gradient = flow[id(part)], part.grad.double()
            zeros = torch.zeros_like(gradient)
            value, mean, square = state.get(name, (part.detach().double(), zeros, zeros))
            mean = 0.9 * mean + 0.1 * gradient
            square = 0.999 * square + 0.001 * gradient**2
            value = (value - 1e-3 * mean / (square.sqrt() + 1e-6)) * (1 - 1e-3 * 0.01)
            state[name] = value, mean, square

    def after(adamw: torch.optim.Optimizer, *_: Any) -> None:
        steps.append(len(state))
        for part in (part for group in adamw.param_groups for part in group["params"]):
            expected = state[flow[id(part)]][0]
            # The decay of a step is 1e-5 of a parameter, and this is ten times finer.
            assert (part.detach() - expected).abs().max() < 1e-6 * (1 + expected.abs().max())

    with register_optimizer_step_pre_hook(before), register_optimizer_step_post_hook(after):
        Trainer(method, looked_up, 0, lambda: 1.0, lambda _: None).run()
    assert len(steps) == 3, "20 items in batches of 8, the short one kept"


def test_more_levels_than_the_width_has_are_one_sentence(kit_for: KitFor, triplets: Path) -> None:
    corpus = str(triplets)
    width = kit_for("flow", corpus=corpus).encoder().hidden_size
    most = int(math.log2(width))
    build(kit_for("flow", corpus=corpus, levels=most))
    with pytest.raises(UserError, match=f"^flow: levels = {most + 1}: .* have at most {most}$"):
        build(kit_for("flow", corpus=corpus, levels=most + 1))
