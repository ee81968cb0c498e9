"""ArcCSE against arccse.md, in plain loops of float64."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from harness.data.batching import TextBatch
from harness.plugin import registry
from tests.families import FAMILIES
from tests.methods.references import KitFor, Vectors, batches_of, has_slopes

PLUGIN = registry.load("arccse")
GLOBALS = PLUGIN.method.losses.__globals__
angular_contrast, triplet_order = GLOBALS["angular_contrast"], GLOBALS["triplet_order"]


def angle(left: list[float], right: list[float]) -> float:
    product = sum(a * b for a, b in zip(left, right, strict=True))
    length = math.sqrt(sum(a * a for a in left) * sum(b * b for b in right))
    return math.acos(max(-1.0, min(1.0, product / length)))


def contrast(first: Vectors, second: Vectors, degrees: float, temperature: float) -> float:
    """Section 1, with arc cosines."""
    total = 0.0
    for row, one in enumerate(first):
        angles = [angle(one, other) for other in second]
        angles[row] += degrees * math.pi / 180
        terms = [math.exp(math.cos(each) / temperature) for each in angles]
        total -= math.log(terms[row] / sum(terms))
    return total / len(first)


def order(whole: Vectors, near: Vectors, far: Vectors, margin: float) -> float:
    """Section 2."""
    terms = [
        max(0.0, math.cos(angle(one, three)) - math.cos(angle(one, two)) + margin)
        for one, two, three in zip(whole, near, far, strict=True)
    ]
    return sum(terms) / len(terms)


@pytest.mark.parametrize("degrees", [0.0, 10.0, 45.0])
@pytest.mark.parametrize("seed", range(2))
def test_the_contrast_and_its_gradient(seed: int, degrees: float) -> None:
    torch.manual_seed(seed)
    first = torch.randn(5, 4, dtype=torch.float64)
    second = first + 0.5 * torch.randn(5, 4, dtype=torch.float64)

    def looped(given: Tensor) -> float:
        return contrast(given.tolist(), second.tolist(), degrees, 0.3)

    leaf = first.clone().requires_grad_()
    loss = angular_contrast(leaf, second, margin=degrees, temperature=0.3)
    assert loss.item() == pytest.approx(looped(first), rel=1e-9)
    loss.backward()
    has_slopes(leaf.grad, looped, first)


def test_equal_views_have_a_finite_gradient() -> None:
    """The derivative of an angle has no bound there."""
    view = torch.randn(4, 6, generator=torch.Generator().manual_seed(0)).requires_grad_()
    angular_contrast(view, view.detach().clone(), margin=10.0, temperature=0.05).backward()
    assert view.grad.isfinite().all()


@pytest.mark.parametrize("margin", [0.0, 0.2])
def test_the_order_of_a_triplet(margin: float) -> None:
    torch.manual_seed(0)
    vectors = torch.randn(3, 8, 4, dtype=torch.float64)
    expected = order(*vectors.tolist(), margin)
    assert expected > 0
    found = triplet_order(*vectors, margin=margin)
    assert found.item() == pytest.approx(expected, rel=1e-5)


def pieces_of(batch: TextBatch) -> list[list[int]]:
    lengths = batch.attention_mask.sum(dim=1).tolist()
    rows = zip(batch.input_ids, lengths, strict=True)
    return [ids[1 : length - 1].tolist() for ids, length in rows]


def test_masked_spans(kit_for: KitFor) -> None:
    """Both have their share of the pieces, without a gap, and one lies in the other."""
    kit = kit_for("arccse", smaller_ratio=0.25, larger_ratio=0.6, batch_size=25)
    method = kit.build()
    _, batches = batches_of(kit, method)
    mask, places = method.tokenizer.mask_token_id, set()
    for _ in range(4):
        batch = next(batches)
        texts, copies = pieces_of(batch["contrastive"]), pieces_of(batch["copies"])
        assert batch["copies"].views == 3
        for text, whole, near, far in zip(
            texts, copies[::3], copies[1::3], copies[2::3], strict=True
        ):
            assert whole == text
            spans = []
            for copy, share in ((near, 0.25), (far, 0.6)):
                span = [place for place, piece in enumerate(copy) if piece == mask]
                assert len(span) == round(share * len(text))
                assert span == [*range(span[0], span[0] + len(span))] if span else True
                kept = [piece for place, piece in enumerate(copy) if place not in span]
                left = [piece for place, piece in enumerate(text) if place not in span]
                assert kept == left
                spans.append(span)
            assert set(spans[0]) <= set(spans[1])
            if spans[0]:
                places.add((len(text), spans[0][0], spans[1][0]))
    assert len(places) > 20, "spans lie anywhere"


def test_an_epoch_draws_anew_and_a_seed_does_not(kit_for: KitFor) -> None:
    copies = GLOBALS["masked_copies"]
    rows = torch.arange(10, 34).view(2, 12)
    options: dict[str, Any] = {"smaller": 0.2, "larger": 0.5, "mask_id": 4, "pad_id": 0}
    template = kit_for("arccse").build().template

    def drawn(epoch: int) -> Tensor:
        batch = TextBatch(rows, torch.ones_like(rows), torch.arange(2), epoch=epoch)
        found: Tensor = copies(batch, template, **options).input_ids
        return found

    assert torch.equal(drawn(0), drawn(0))
    assert len({drawn(epoch).numpy().tobytes() for epoch in range(6)}) > 1


@FAMILIES
@pytest.mark.usefixtures("equal_views")
def test_losses_of_several_batches(kit_for: KitFor) -> None:
    kit = kit_for("arccse", batch_size=6, temperature=0.3, triplet_margin=0.01, max_length=30)
    method = kit.build().eval()
    nn.init.normal_(method.head.linear.weight, std=0.3)
    stage, batches = batches_of(kit, method)
    assert stage.losses == {"contrastive": 1.0, "triplet": 0.1}

    def vector(pieces: list[int]) -> list[float]:
        tokenizer = method.tokenizer
        row = torch.tensor([[tokenizer.cls_token_id, *pieces, tokenizer.sep_token_id]])
        with torch.no_grad():
            state = method.encoder.model(row).last_hidden_state[:, 0]
            found = method.head(state)[0]
        return list(found.double().tolist())

    for _ in range(3):
        batch = next(batches)
        view = [vector(pieces) for pieces in pieces_of(batch["contrastive"])]
        copies = [vector(pieces) for pieces in pieces_of(batch["copies"])]
        losses = method.losses(batch, stage)
        # The angle of equal views is 0, where the square of a sine counts as 1e-6.
        assert losses["contrastive"].item() == pytest.approx(
            contrast(view, view, 10.0, 0.3), rel=2e-3
        )
        expected = order(copies[::3], copies[1::3], copies[2::3], 0.01)
        assert losses["triplet"].item() == pytest.approx(expected, rel=1e-3, abs=1e-6)


def test_the_triplets_have_no_dropout_and_the_views_have(kit_for: KitFor) -> None:
    method_kit = kit_for("arccse", encoder_dropout=0.3)
    method = method_kit.build().train()
    stage, batches = batches_of(method_kit, method)
    batch = next(batches)
    losses = [method.losses(batch, stage) for _ in range(2)]
    assert losses[0]["triplet"].item() == losses[1]["triplet"].item()
    assert losses[0]["contrastive"].item() != losses[1]["contrastive"].item()
    assert method.encoder.training
    assert all(each.training for each in method.encoder.modules())
    losses[0]["triplet"].backward()
    assert any(each.grad is not None for each in method.encoder.parameters())
