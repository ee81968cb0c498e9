"""MixCSE against mixcse.md."""

import math

import pytest
import torch
from torch import Tensor

from harness.plugin import registry
from tests.families import FAMILIES
from tests.methods.references import KitFor, Vectors, batches_of, cosine, has_slopes

PLUGIN = registry.load("mixcse")
mixing_contrast = PLUGIN.method.losses.__globals__["mixing_contrast"]


def mixtures(vectors: Vectors, share: float) -> Vectors:
    """Mixtures of each vector and the next one of the batch."""
    following = [*vectors[1:], vectors[0]]
    return [
        [share * a + (1 - share) * b for a, b in zip(own, other, strict=True)]
        for own, other in zip(vectors, following, strict=True)
    ]


def looped(
    first: Vectors, second: Vectors, mixed: tuple[Vectors, Vectors], temperature: float
) -> float:
    """Section 1, word by word; the mixtures are given, because they are constants."""
    count, total = len(first), 0.0
    for i in range(count):
        logits = [cosine(first[i], each) for each in second]
        logits += [0.0 if (k + 1) % count == i else cosine(first[i], mixed[1][k])
                   for k in range(count)]  # fmt: skip
        logits += [0.0 if j == (i + 1) % count else cosine(mixed[0][i], second[j])
                   for j in range(count)]  # fmt: skip
        terms = [math.exp(each / temperature) for each in logits]
        total -= math.log(terms[i] / sum(terms))
    return total / count


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("count", [2, 5])
def test_the_loss_and_its_gradient(seed: int, count: int) -> None:
    """No gradient goes through the mixtures."""
    torch.manual_seed(seed)
    first, second = torch.randn(2, count, 6, dtype=torch.float64)
    mixed = mixtures(first.tolist(), 0.2), mixtures(second.tolist(), 0.2)

    def value(changed: Tensor) -> float:
        return looped(changed.tolist(), second.tolist(), mixed, 0.3)

    leaf = first.clone().requires_grad_()
    loss = mixing_contrast(leaf, second, share=0.2, temperature=0.3)
    assert loss.item() == pytest.approx(value(first), rel=1e-5)
    loss.backward()
    has_slopes(leaf.grad, value, first, ((0, 0), (1, 3), (count - 1, 5)), rel=1e-3, abs=1e-5)


@FAMILIES
@pytest.mark.usefixtures("equal_views")
def test_the_loss_of_a_batch(kit_for: KitFor) -> None:
    kit = kit_for("mixcse", batch_size=6)
    method = kit.build().eval()
    stage, batches = batches_of(kit, method)
    for _ in range(3):
        batch = next(batches)
        states = method.embed(batch["contrastive"])
        headed = method.embed_dev(batch["contrastive"])
        assert torch.equal(headed, method.head(states))
        vectors = headed.detach().double().tolist()
        mixed = mixtures(vectors, 0.2), mixtures(vectors, 0.2)
        found = method.losses(batch, stage)["contrastive"].item()
        assert found == pytest.approx(looped(vectors, vectors, mixed, 0.05), rel=1e-4)
