"""DCLR against dclr.md, in plain loops of float64."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from harness.plugin import registry
from tests.methods.references import (
    KitFor,
    Vectors,
    batches_of,
    by_transformers,
    cosine,
    has_slopes,
    info_nce,
)

PLUGIN = registry.load("dclr")
GLOBALS = PLUGIN.method.losses.__globals__
hardened, debiased_contrast = GLOBALS["hardened"], GLOBALS["debiased_contrast"]


def contrast(
    first: Vectors, second: Vectors, noise: Vectors, alike: list[list[bool]], temperature: float
) -> float:
    """Section 3, entry by entry."""
    total = 0.0
    for row, one in enumerate(first):
        logits = [
            0.0 if alike[row][place] and place != row else cosine(one, other) / temperature
            for place, other in enumerate(second)
        ]
        terms = [math.exp(logit) for logit in logits]
        terms += [math.exp(cosine(one, other) / temperature) for other in noise]
        for place, term in enumerate(terms):
            probability = term / sum(terms)
            total -= math.log(probability if place == row else 1 - probability)
    return total / len(first) / (len(second) + len(noise))


def climbed(
    first: Vectors, second: Vectors, noise: Vectors, steps: int, rate: float, temperature: float
) -> Vectors:
    """Section 1, with slopes from differences."""
    for _ in range(steps):
        slopes = []
        for row in range(len(noise)):
            slope = []
            for column in range(len(noise[0])):
                sides = []
                for sign in (1, -1):
                    moved = [list(each) for each in noise]
                    moved[row][column] += sign * 1e-5
                    sides.append(info_nce(first, [*second, *moved], temperature))
                slope.append(sides[0] - sides[1])
            slopes.append(slope)
        lengths = [math.sqrt(sum(part * part for part in slope)) for slope in slopes]
        noise = [
            [value + rate * part / length for value, part in zip(each, slope, strict=True)]
            for each, slope, length in zip(noise, slopes, lengths, strict=True)
        ]
    return noise


@pytest.mark.parametrize("seed", range(3))
def test_the_loss_and_its_gradient(seed: int) -> None:
    torch.manual_seed(seed)
    first, second = torch.randn(2, 5, 4, dtype=torch.float64).unbind()
    noise, alike = torch.randn(3, 4, dtype=torch.float64), torch.rand(5, 5) > 0.7
    assert (alike & ~torch.eye(5, dtype=torch.bool)).any()

    def looped(given: torch.Tensor) -> float:
        return contrast(given.tolist(), second.tolist(), noise.tolist(), alike.tolist(), 0.3)

    leaf = first.clone().requires_grad_()
    loss = debiased_contrast(leaf, second, noise, alike, temperature=0.3)
    assert loss.item() == pytest.approx(looped(first), rel=1e-9)
    loss.backward()
    has_slopes(leaf.grad, looped, first)


@pytest.mark.parametrize("steps", [0, 1, 4])
def test_noise_climbs(steps: int) -> None:
    torch.manual_seed(steps)
    first, second = torch.randn(2, 4, 3, dtype=torch.float64).unbind()
    noise = torch.randn(3, 3, dtype=torch.float64)
    leaves = [each.clone().requires_grad_() for each in (first, second)]
    negatives = hardened(noise, *leaves, steps=steps, rate=0.05, temperature=0.3)
    expected = climbed(first.tolist(), second.tolist(), noise.tolist(), steps, 0.05, 0.3)
    assert torch.allclose(negatives, torch.tensor(expected, dtype=torch.float64), atol=1e-6)
    assert not negatives.requires_grad
    assert all(each.grad is None for each in leaves)


@pytest.mark.slow
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.usefixtures("equal_views")
def test_losses_of_several_batches(
    kit_for: KitFor, layers: int, tiny_roberta: Path, sentences: Path
) -> None:
    """The teacher has another tokenizer than the encoder."""
    lines = sentences.read_text().splitlines()
    read = by_transformers(tiny_roberta, lines)
    cosines = sorted({cosine(one, other) for one in read for other in read})
    middle = max(range(400, 700), key=lambda place: cosines[place + 1] - cosines[place])
    bound = (cosines[middle] + cosines[middle + 1]) / 2  # so far from all that float32 is enough
    kit = kit_for(
        "dclr", teacher=str(tiny_roberta), similarity_bound=bound, noise_ratio=0.5,
        ascent_rate=0.1, ascent_steps=1, head_layers=layers, batch_size=6, temperature=0.3,
        max_length=30,
    )  # fmt: skip
    method = kit.build().eval()
    for parameter in method.head.parameters():
        nn.init.normal_(parameter, std=0.3)
    stage, batches = batches_of(kit, method)
    pairs_left_out = 0
    for number in range(3):
        batch = next(batches)
        texts = [lines[item] for item in batch["contrastive"].items.tolist()]
        theirs = by_transformers(tiny_roberta, texts)
        alike = [[cosine(one, other) > bound for other in theirs] for one in theirs]
        pairs_left_out += sum(map(sum, alike)) - len(texts)
        heads: Any = torch.tensor(by_transformers(Path(kit.config.encoder), texts)).double()
        for layer in method.head:
            weight, bias = layer.linear.weight.double(), layer.linear.bias.double()
            heads = torch.tanh(heads @ weight.T + bias)
        view = heads.tolist()
        torch.manual_seed(number)
        noise = torch.randn(3, len(view[0])).double().tolist()
        noise = climbed(view, view, noise, 1, 0.1, 0.3)
        torch.manual_seed(number)
        found = method.losses(batch, stage)["contrastive"].item()
        assert found == pytest.approx(contrast(view, view, noise, alike, 0.3), rel=1e-4)
    assert 0 < pairs_left_out < 3 * 30


def test_vectors_of_dev_and_of_the_test(kit_for: KitFor) -> None:
    for dev_head in (True, False):
        kit = kit_for("dclr", dev_head=dev_head)
        method = kit.build().eval()
        _, batches = batches_of(kit, method)
        texts = next(batches)["contrastive"]
        with torch.no_grad():
            states = method.encoder(texts)[:, 0]
            assert torch.allclose(method.embed(texts), states, atol=1e-6)
            expected = method.head[0](states) if dev_head else states
            assert torch.allclose(method.embed_dev(texts), expected, atol=1e-6)
