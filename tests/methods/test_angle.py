"""AnglE against angle.md."""

import cmath
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from harness.plugin import registry
from harness.plugin.kit import Kit
from tests.families import FAMILIES
from tests.methods.references import KitFor, Vectors, batches_of, cosine, has_slopes, info_nce

PLUGIN = registry.load("angle")
functions = PLUGIN.method.losses.__globals__


def norm(vector: list[float]) -> float:
    return math.sqrt(sum(value * value for value in vector))


def quotients(left: list[float], right: list[float]) -> float:
    """Section 1.3 with complex numbers: |sum of the parts of z / w, over the ratio of norms|."""
    half = len(left) // 2
    z, w = (
        [complex(*each) for each in zip(v[:half], v[half:], strict=True)] for v in (left, right)
    )
    square = sum(abs(each) ** 2 for each in w)
    shares = [a * b.conjugate() / square for a, b in zip(z, w, strict=True)]
    ratio = norm(left) / norm(right)
    return abs(sum(each.real + each.imag for each in shares) / ratio)


def ordering(similarities: list[float], scores: list[float], scale: float) -> float:
    """Section 1.1."""
    total = 1.0
    for near, high in zip(similarities, scores, strict=True):
        for far, low in zip(similarities, scores, strict=True):
            total += math.exp(scale * (far - near)) if high > low else 0.0
    return math.log(total)


def in_batch(first: Vectors, second: Vectors, positive: list[bool], scale: float) -> float:
    """Section 1.2, for pairs."""
    texts, count, total = [*first, *second], len(first), 0.0
    for number, text in enumerate(texts):
        if positive[number % count]:
            terms = {
                other: math.exp(scale * cosine(text, texts[other]))
                for other in range(2 * count)
                if other != number
            }
            total -= math.log(terms[(number + count) % (2 * count)] / sum(terms.values()))
    return total / (2 * count)


def test_the_quotients_are_those_of_complex_numbers() -> None:
    """The quotient of one dimension has the difference of the angles, and length 1."""
    z, w = cmath.rect(2.0, 1.1), cmath.rect(0.5, 0.4)
    turned = cmath.rect(1.0, 0.7)
    found = quotients([z.real, z.imag], [w.real, w.imag])
    assert found == pytest.approx(turned.real + turned.imag)


@pytest.mark.parametrize("seed", range(4))
def test_losses_are_their_formulas(seed: int) -> None:
    """And the gradient of the angle loss is that of the plain loop."""
    torch.manual_seed(seed)
    first, second = torch.randn(2, 5, 6, dtype=torch.float64)
    scores = torch.randint(4, (5,)).double()
    u, v = first.tolist(), second.tolist()
    found = functions["in_batch"](first, second, scores >= 2, scale=3.0).item()
    assert found == pytest.approx(in_batch(u, v, (scores >= 2).tolist(), 3.0), rel=1e-5)

    def looped(changed: Tensor) -> float:
        pairs = zip(changed.tolist(), v, strict=True)
        return ordering([quotients(*pair) for pair in pairs], scores.tolist(), 1.5)

    leaf = first.clone().requires_grad_()
    loss = functions["angle"](leaf, second, scores, scale=1.5)
    assert loss.item() == pytest.approx(looped(first), rel=1e-5)
    loss.backward()
    has_slopes(leaf.grad, looped, first, ((0, 0), (2, 5), (4, 3)), rel=1e-3, abs=1e-5)


def texts_of(kit: Kit, method: Any, count: int) -> list[Any]:
    _, batches = batches_of(kit, method)
    return [next(batches) for _ in range(count)]


@FAMILIES
def test_losses_of_scored_pairs(kit_for: KitFor, pairs: Path) -> None:
    corpus = f"{pairs}?first=premise&second=hypothesis&score=label"
    kit = kit_for("angle", scored_pairs=corpus, batch_size=6, angle_scale=2.0, positive_score=1.5)
    method = kit.build().eval()
    for batch in texts_of(kit, method, 3):
        texts = batch["pairs"]
        losses = method.losses(batch, kit.declared.stages[0])
        vectors = method.embed(texts).detach().double().tolist()
        u, v, scores = vectors[0::2], vectors[1::2], texts.labels.tolist()
        together = [*zip(u, v, strict=True)]
        expected = {
            "cosine": ordering([cosine(*pair) for pair in together], scores, 20.0),
            "in-batch": in_batch(u, v, [score >= 1.5 for score in scores], 20.0),
            "angle": ordering([quotients(*pair) for pair in together], scores, 2.0),
        }
        for name, value in expected.items():
            assert losses[name].item() == pytest.approx(value, rel=1e-4), name


@FAMILIES
def test_losses_of_triplets(kit_for: KitFor) -> None:
    """An entailment is a pair of score 1, a contradiction one of score 0."""
    kit = kit_for("angle", batch_size=6)
    method = kit.build().eval()
    for batch in texts_of(kit, method, 3):
        losses = method.losses(batch, kit.declared.stages[0])
        vectors = method.embed(batch["pairs"]).detach().double().tolist()
        anchors, near, far = vectors[0::3], vectors[1::3], vectors[2::3]
        together = [*zip([*anchors, *anchors], [*near, *far], strict=True)]
        scores = [1.0] * len(near) + [0.0] * len(far)
        contrast = (info_nce(anchors, near, 0.05) + info_nce(anchors, [*near, *far], 0.05)) / 2
        expected = {
            "cosine": ordering([cosine(*pair) for pair in together], scores, 20.0),
            "in-batch": contrast,
            "angle": ordering([quotients(*pair) for pair in together], scores, 1.0),
        }
        for name, value in expected.items():
            assert losses[name].item() == pytest.approx(value, rel=1e-4), name
