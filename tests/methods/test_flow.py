"""BERT-flow against frozen_maps.md, section 1.

The flow itself is in tests/modules/test_flow_modules.py.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from harness.data.batching import Stream, StreamOptions, TextBatch
from harness.plugin import registry
from harness.plugin.frozen_vectors import corpus_vectors
from harness.plugin.kit import Kit
from harness.training import optimisers
from harness.training.loop import Trainer
from harness.trials.trial import resolve

KitFor = Callable[..., Kit]


@pytest.fixture
def kit(kit_for: KitFor, triplets: Path) -> Kit:
    return kit_for("flow", corpus=str(triplets))


def build(kit: Kit) -> Any:
    torch.manual_seed(0)
    return kit.build()


def train(method: Any, kit: Kit) -> Any:
    scores = iter(range(10_000))
    Trainer(method, kit, 0, lambda: float(next(scores)), lambda _: None).run()
    return method


def some_texts(kit: Kit, method: Any) -> TextBatch:
    return next(
        iter(
            Stream(
                kit.tokens(kit.config.corpus),
                method.template,
                StreamOptions(limit=30, batch_size=6, seed=0),
            )
        )
    )


def items(*numbers: int) -> dict[str, TextBatch]:
    nothing = torch.zeros(3 * len(numbers), 0, dtype=torch.long)
    return {"corpus": TextBatch(nothing, nothing, torch.tensor(numbers), 3)}


@pytest.mark.parametrize("permutation", ["reverse", "invertible"])
def test_the_flow_trains_and_nothing_else(
    kit_for: KitFor, triplets: Path, permutation: str
) -> None:
    """ActNorms, couplings and learned maps train.

    The order and the signs of a learned map stay, and so does the encoder.
    """
    kit = kit_for("flow", corpus=str(triplets), permutation=permutation, max_steps=3)
    method = build(kit)
    before = {name: value.clone() for name, value in method.state_dict().items()}
    train(method, kit)
    still = {name for name, value in method.state_dict().items() if value.equal(before[name])}
    assert {name for name in before if name.startswith("encoder")} <= still
    stay = ("order", "signs")
    assert not {name for name in still if name.startswith("flow") and not name.endswith(stay)}


def test_all_texts_of_an_item_contribute(kit: Kit) -> None:
    method = build(kit).eval()
    vectors = torch.tensor(
        corpus_vectors(kit, kit.config.corpus, "first-last", 64)[[4, 2]]
    ).reshape(6, 32)
    found = method.losses(items(4, 2), method.stages(kit.config)[0])
    assert found.keys() == {"bits_per_dimension"}
    assert found["bits_per_dimension"].item() == pytest.approx(
        method.flow.bits_per_dimension(vectors).item(), rel=1e-5
    )


@pytest.mark.slow
def test_training_raises_the_likelihood(kit_for: KitFor, triplets: Path) -> None:
    kit = kit_for(
        "flow", corpus=str(triplets), batch_size=20, max_steps=40, epochs=40, evaluation_interval=40
    )
    method = build(kit)
    losses = []
    original = method.losses

    def watched(batch: Any, stage: Any) -> Any:
        found = original(batch, stage)
        losses.append(found["bits_per_dimension"].item())
        return found

    method.losses = watched
    train(method, kit)
    assert losses[-1] < losses[0] - 0.05


@torch.no_grad()
@pytest.mark.parametrize("architecture", ["tiny_encoder", "tiny_roberta"])
@pytest.mark.parametrize("pooling", ["first-last", "mean"])
def test_sentences_are_the_flows_output(
    kit_for: KitFor, triplets: Path, request: pytest.FixtureRequest, architecture: str, pooling: str
) -> None:
    """First-last vectors (the released "avg-last-2" is layers 1 and last), or any other.

    Padding does not show.
    """
    encoder = str(request.getfixturevalue(architecture))
    kit = kit_for("flow", corpus=str(triplets), encoder=encoder, pooling=pooling)
    method = build(kit).train()
    method.losses(items(*range(20)), method.stages(kit.config)[0])  # sets the ActNorms
    method.eval()
    batch = some_texts(kit, method)
    layers = method.encoder.layers(batch)
    states = (layers[1] + layers[-1]) / 2 if pooling == "first-last" else layers[-1]
    mask = batch.attention_mask[:, :, None]
    expected = method.flow((states * mask).sum(dim=1) / mask.sum(dim=1))[0]
    assert (method.embed(batch) - expected).abs().max() < 1e-4 * expected.abs().max()
    length = int(batch.attention_mask[0].sum())
    alone = batch.replaced(batch.input_ids[:1, :length], batch.attention_mask[:1, :length])
    assert (method.embed(alone) - expected[:1]).abs().max() < 1e-4 * expected.abs().max()


def test_the_released_optimiser(
    kit_for: KitFor, triplets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Epsilon 1e-6, no bias correction, a constant rate, and decay 0.01 on matrices alone."""
    kit = kit_for("flow", corpus=str(triplets), epochs=2)
    seen: list[Any] = []
    step = optimisers.ReleasedAdamW.step

    def watched(self: Any, closure: Any = None) -> None:
        decays = {
            (part.dim(), group["weight_decay"])
            for group in self.param_groups
            for part in group["params"]
        }
        seen.append((self.epsilon, self.correct_bias, self.param_groups[0]["lr"], decays))
        step(self, closure)

    monkeypatch.setattr(optimisers.ReleasedAdamW, "step", watched)
    train(build(kit), kit)
    assert len(seen) == 6, "20 items in batches of 8, the short one kept, twice"
    assert all(found == (1e-6, False, 1e-3, {(2, 0.01), (1, 0.0)}) for found in seen)


def test_same_seed_same_flow(kit: Kit) -> None:
    one, two = (train(build(kit), kit).flow.state_dict() for _ in range(2))
    assert all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.parametrize("values", [{"precision": "bf16"}, {"gradient_checkpointing": True}])
def test_trains_in_bf16_and_with_checkpointing(
    kit_for: KitFor, triplets: Path, values: dict[str, Any]
) -> None:
    kit = kit_for("flow", corpus=str(triplets), **values)
    plain = kit_for("flow", corpus=str(triplets))
    one, two = (train(build(each), each).flow.state_dict() for each in (kit, plain))
    difference = max(float((one[name].float() - two[name].float()).abs().max()) for name in one)
    assert (difference > 0) == ("precision" in values)
    assert np.isfinite(difference)


def test_the_papers_values() -> None:
    config = resolve(registry.load("flow"), {})
    assert (config.setting, config.corpus, config.pooling, config.max_length) == (
        "unsup",
        "nli-pairs",
        "first-last",
        64,
    )
    assert (config.levels, config.steps_per_level, config.coupling_width) == (3, 3, 32)
    assert (config.batch_size, config.epochs, config.learning_rate, config.weight_decay) == (
        32,
        1,
        1e-3,
        0.01,
    )
    assert (config.gradient_clipping, config.warmup_ratio, config.permutation) == (
        1.0,
        0,
        "reverse",
    )
