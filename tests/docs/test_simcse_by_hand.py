"""`docs/simcse_by_hand.py` and the plugin: the same losses and the same weights, step by step."""

import statistics
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer

from harness.plugin.kit import Kit
from harness.training.feeding import stage_streams
from harness.training.loop import Trainer
from harness.training.progress import Progress
from harness.training.seeds import seed_everything
from tests.checkout import module_of
from tests.kits import KitFor

SEED = 3


@pytest.fixture
def by_hand() -> Any:
    """The page as a module, with the batch size of the small kits."""
    module = module_of("docs/simcse_by_hand.py")
    module.BATCH_SIZE = 8
    return module


def model_as(by_hand: Any, method: Any, kit: Kit) -> Any:
    """The model of the page with the first weights of a method."""
    model = by_hand.SimCSE(kit.config.encoder)
    weights = {name: value.clone() for name, value in method.state_dict().items()}
    start = "encoder.model."
    encoder = {name[len(start) :]: weights[name] for name in weights if name.startswith(start)}
    model.encoder.load_state_dict(encoder)
    model.head.weight.data = weights["head.linear.weight"]
    model.head.bias.data = weights["head.linear.bias"]
    return model


@pytest.mark.slow
@pytest.mark.usefixtures("equal_views")
def test_every_loss_and_the_last_weights(by_hand: Any, kit_for: KitFor, sentences: Path) -> None:
    kit = kit_for("simcse", encoder_dropout=0.0, evaluation_interval=1, learning_rate=1e-3)
    by_hand.LEARNING_RATE = 1e-3  # larger, so that what the steps before have done shows
    seed_everything(SEED)
    # Adam divides by the size of a gradient, so rounding shows in steps: both compute in float64.
    method = kit.build().double()
    model = model_as(by_hand, method, kit).double()
    tokenizer = AutoTokenizer.from_pretrained(kit.config.encoder)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    reports: list[Progress] = []
    scores = iter(range(10_000))
    Trainer(method, kit, SEED, lambda: float(next(scores)), reports.append).run()
    lines = sentences.read_text(encoding="utf-8").splitlines()
    losses = list(by_hand.train(model, tokenizer, lines, SEED))
    assert len(losses) == len(reports) > 5
    assert losses == pytest.approx([report.loss for report in reports], rel=1e-5, abs=1e-6)
    trained = model_as(by_hand, method, kit).double()
    for (name, mine), theirs in zip(model.named_parameters(), trained.parameters(), strict=True):
        assert torch.allclose(mine, theirs, atol=1e-6), name


@pytest.mark.slow
def test_dropout_makes_the_same_views_on_average(
    by_hand: Any, kit_for: KitFor, sentences: Path
) -> None:
    kit = kit_for("simcse")
    seed_everything(SEED)
    method = kit.build().train()
    model = model_as(by_hand, method, kit).train()
    tokenizer = AutoTokenizer.from_pretrained(kit.config.encoder)
    lines = sentences.read_text(encoding="utf-8").splitlines()
    texts = by_hand.tokenised(tokenizer, next(by_hand.batches(lines, SEED)))
    stage = kit.declared.stages[0]
    streams = stage_streams(method, kit, stage, SEED)
    batch = {name: next(iter(stream)) for name, stream in streams.items()}
    with torch.no_grad():
        plugin = [float(method.losses(batch, stage)["contrastive"]) for _ in range(60)]
        page = [float(model.loss(texts)) for _ in range(60)]
    error = (statistics.variance(plugin) / 60 + statistics.variance(page) / 60) ** 0.5
    assert error > 0
    assert abs(statistics.mean(plugin) - statistics.mean(page)) < 4 * error
