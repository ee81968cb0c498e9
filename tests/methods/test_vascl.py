"""VaSCL against vascl.md."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from harness.plugin import registry
from tests.families import FAMILIES
from tests.methods.references import KitFor, Vectors, batches_of

PLUGIN = registry.load("vascl")


def dot(left: list[float], right: list[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))


def unit(vector: list[float]) -> list[float]:
    return [each / math.sqrt(dot(vector, vector)) for each in vector]


def head(vectors: Vectors, weights: list[Vectors]) -> Vectors:
    """Vectors of length 1 behind the head."""
    first, second = weights
    inner = [[max(0.0, dot(row, vector)) for row in first] for vector in vectors]
    return [unit([dot(row, vector) for row in second]) for vector in inner]


def entropy(positive: float, negatives: list[float], temperature: float) -> float:
    terms = [math.exp(each / temperature) for each in (positive, *negatives)]
    return -math.log(terms[0] / sum(terms))


def contrastive(first: Vectors, second: Vectors, temperature: float) -> float:
    """The loss of 2 N vectors; the candidates are all others."""
    every, count = [*first, *second], len(first)
    total = 0.0
    for i, anchor in enumerate(every):
        partner = (i + count) % (2 * count)
        others = [dot(anchor, each) for j, each in enumerate(every) if j not in (i, partner)]
        total += entropy(dot(anchor, every[partner]), others, temperature)
    return total / (2 * count)


def neighbours(vectors: Vectors, count: int) -> list[list[int]]:
    return [
        sorted((j for j in range(len(vectors)) if j != i), key=lambda j: -dot(own, vectors[j]))[
            :count
        ]
        for i, own in enumerate(vectors)
    ]


def one_sided(
    projected: Vectors, copies: Vectors, near: list[list[int]], temperature: float
) -> float:
    """The loss along whose gradient a sentence is moved: copies look for their sentences."""
    terms = [
        entropy(dot(copy, projected[i]), [dot(copy, projected[j]) for j in near[i]], temperature)
        for i, copy in enumerate(copies)
    ]
    return sum(terms) / len(terms)


def neighbourhood(
    projected: Vectors, copies: Vectors, near: list[list[int]], temperature: float
) -> float:
    total = 0.0
    for one, other in ((projected, copies), (copies, projected)):
        for i, anchor in enumerate(one):
            others = [dot(anchor, each[j]) for each in (projected, copies) for j in near[i]]
            total += entropy(dot(anchor, other[i]), others, temperature)
    return total / (2 * len(projected))


def slope(value: Callable[[Tensor], float], at: Tensor) -> Tensor:
    """The gradient by differences."""
    gradient = torch.zeros_like(at)
    for index in torch.cartesian_prod(*(torch.arange(size) for size in at.shape)).tolist():
        step = torch.zeros_like(at)
        step[tuple(index)] = 1e-6
        gradient[tuple(index)] = (value(at + step) - value(at - step)) / 2e-6
    return gradient


@FAMILIES
@pytest.mark.usefixtures("equal_views")
def test_the_losses_of_a_batch(kit_for: KitFor) -> None:
    kit = kit_for("vascl", batch_size=5, neighbours=2, head_width=4, temperature=0.3)
    method = kit.build().eval()
    stage, batches = batches_of(kit, method)
    weights = [each.detach().double().tolist() for each in method.head.parameters()]
    for step in range(3):
        batch = next(batches)
        torch.manual_seed(step)
        losses = method.losses(batch, stage)
        torch.manual_seed(step)
        sentences = method.embed(batch["contrastive"]).detach().double()
        start = torch.rand(sentences.shape).double() - 0.5
        start /= start.norm(dim=1, keepdim=True)
        near = neighbours(sentences.tolist(), 2)
        projected = head(sentences.tolist(), weights)

        def copies(direction: Tensor, sentences: Tensor = sentences) -> Vectors:
            return head((sentences + 15 * direction).tolist(), weights)

        gradient = slope(
            lambda direction, near=near, projected=projected, copies=copies: one_sided(
                projected, copies(direction), near, 0.3
            ),
            start,
        )
        virtual = copies(gradient / gradient.norm(dim=1, keepdim=True))
        expected = neighbourhood(projected, virtual, near, 0.3)
        assert losses["neighbourhood"].item() == pytest.approx(expected, rel=1e-3)
        expected = contrastive(projected, projected, 0.3)
        assert losses["contrastive"].item() == pytest.approx(expected, rel=1e-4)


def test_the_neighbourhood_trains_the_head_alone(kit_for: KitFor) -> None:
    kit = kit_for("vascl", batch_size=5)
    method = kit.build().train()
    stage, batches = batches_of(kit, method)
    batch = next(batches)
    method.losses(batch, stage)["neighbourhood"].backward()
    reached = {name for name, value in method.named_parameters() if value.grad is not None}
    assert reached == {"head.0.weight", "head.2.weight"}


def test_fewer_items_than_neighbours() -> None:
    """The last batch of an epoch may be short: then all others are neighbours."""
    nearest = PLUGIN.method._neighbourhood.__globals__["nearest"]
    assert nearest(torch.randn(3, 4), 16).equal(~torch.eye(3, dtype=torch.bool))
