"""PCL against pcl.md."""

import math
from collections import Counter

import numpy as np
import pytest
import torch

from harness.plugin import registry
from harness.training.feeding import made, stage_streams
from tests.families import FAMILIES
from tests.methods.references import KitFor, Vectors, batches_of, cosine

PLUGIN = registry.load("pcl")
Views = list[Vectors]
"""Vectors of all views of all items"""


def similarities(
    anchors: Vectors, positives: Views, negatives: Vectors, temperature: float
) -> Vectors:
    """Section 2: those of its own positives, then those of all other items."""
    return [
        [
            each / temperature
            for each in (
                *(cosine(anchor, positive) for positive in positives[i]),
                *(cosine(anchor, other) for j, other in enumerate(negatives) if j != i),
            )
        ]
        for i, anchor in enumerate(anchors)
    ]


def shares(row: list[float]) -> list[float]:
    terms = [math.exp(each) for each in row]
    return [term / sum(terms) for term in terms]


def contrastive(views: Views, temperature: float) -> float:
    total = 0.0
    for i, (first, *_) in enumerate(views):
        row = [cosine(first, other[1]) / temperature for other in views]
        total -= math.log(shares(row)[i])
    return total / len(views)


def peer_positive(views: Views, temperature: float) -> float:
    first, further = [each[0] for each in views], [each[1:] for each in views]
    terms = []
    for row in similarities(first, further, first, temperature):
        for number, share in enumerate(shares(row)):
            right = 1 / (1 + math.exp(-share))
            terms.append(-math.log(right if number < len(further[0]) else 1 - right))
    return sum(terms) / len(terms)


def peer_network(own: Views, peers: Views, temperature: float) -> float:
    first, further = [each[0] for each in own], [each[1:] for each in own]
    peer, others = [each[0] for each in peers], [each[1:] for each in peers]
    total = 0.0
    for parts, targets in (
        ((first, others, peer), (peer, further, first)),
        ((first, further, first), (peer, others, peer)),
    ):
        terms = [
            q * math.log(q / p)
            for row, target in zip(
                similarities(*parts, temperature), similarities(*targets, temperature), strict=True
            )
            for p, q in zip(shares(row), shares(target), strict=True)
        ]
        total += sum(terms) / len(terms)
    return total


@FAMILIES
@pytest.mark.usefixtures("equal_views")
def test_the_losses_of_a_batch(kit_for: KitFor) -> None:
    kit = kit_for("pcl", batch_size=5, temperature=0.3)
    method = kit.build().eval()
    stage, batches = batches_of(kit, method)
    with torch.no_grad():  # else both networks are the same one
        for parameter in method.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.02)
        for _ in range(3):
            batch = next(batches)
            rows = batch["views"]
            losses = method.losses(batch, stage)
            own = method.head(method.embed(rows)).double().view(5, 10, -1).tolist()
            peers = method.head(method.peer_pooler(method.peer.cls(rows)))
            peers = peers.double().view(5, 10, -1).tolist()
            expected = {
                "contrastive": contrastive(own, 0.3) + contrastive(peers, 0.3),
                "peer-positive": peer_positive(own, 0.3) + peer_positive(peers, 0.3),
                "peer-network": peer_network(own, peers, 0.3),
            }
            for name, value in expected.items():
                assert losses[name].item() == pytest.approx(value, rel=1e-3), name


def test_the_gradient_goes_to_the_target_as_well() -> None:
    """The peer is not fixed: it moves towards the network, too."""
    loss = PLUGIN.method.losses.__globals__["peer_network"]
    torch.manual_seed(0)
    own, peers = torch.randn(2, 3, 4, 6, dtype=torch.float64)
    leaf = peers.clone().requires_grad_()
    loss(own, leaf, temperature=0.5).backward()
    for index in ((0, 0, 0), (1, 3, 2), (2, 1, 5)):
        step = torch.zeros_like(peers)
        step[index] = 1e-5
        ends = [peer_network(own.tolist(), (peers + each).tolist(), 0.5) for each in (step, -step)]
        assert float(leaf.grad[index]) == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-4)


def test_the_views_of_a_sentence(kit_for: KitFor) -> None:
    """Twice itself, then twice shuffled, reversed, shortened and lengthened, anew in each epoch."""
    kit = kit_for("pcl", batch_size=4, max_length=12)
    method = kit.build()
    (stage,) = kit.declared.stages
    streams = stage_streams(method, kit, stage, seed=0)
    seen: dict[int, list[list[list[int]]]] = {}
    batches = made(method, stage, streams, 0)
    for _ in range(2 * len(streams["contrastive"])):
        batch = next(batches)
        rows = batch["views"]
        inner = [
            ids[1 : int(mask.sum()) - 1].tolist()
            for ids, mask in zip(rows.input_ids, rows.attention_mask, strict=True)
        ]
        for number, item in enumerate(rows.items.tolist()):
            seen.setdefault(item, []).append(inner[10 * number : 10 * number + 10])
    assert all(len(epochs) == 2 for epochs in seen.values())
    for one, other in seen.values():
        for views in (one, other):
            sentence = views[0]
            assert views[1] == sentence
            changes = round(0.2 * len(sentence))
            for start in (2, 6):
                shuffled, turned, shortened, lengthened = views[start : start + 4]
                assert Counter(shuffled) == Counter(sentence)
                assert turned == sentence[::-1]
                assert len(shortened) == len(sentence) - changes
                assert not Counter(shortened) - Counter(sentence)
                assert len(lengthened) == min(len(sentence) + changes, 10)
                assert set(lengthened) == set(sentence)
    assert any(one[2] != other[2] for one, other in seen.values())


def test_deletion_takes_the_first_of_equal_pieces() -> None:
    shortened = PLUGIN.method.prepared.__globals__["augmented_views"].__globals__["shortened"]
    pieces, generator = np.array([7, 8, 7, 7, 7]), np.random.default_rng(0)
    found = {tuple(shortened(pieces, 0.2, generator).tolist()) for _ in range(50)}
    assert found == {(8, 7, 7, 7), (7, 7, 7, 7)}
