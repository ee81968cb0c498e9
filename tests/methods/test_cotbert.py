"""CoT-BERT against cotbert.md. The reference runs every row alone, in float64."""

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.data.tokens import Template
from harness.plugin import registry
from harness.plugin.resolution import resolve
from tests.families import FAMILIES
from tests.methods.references import KitFor, Templates, batches_of, has_slopes

PLUGIN = registry.load("cotbert")
extended_info_nce = PLUGIN.method.losses.__globals__["extended_info_nce"]
TEMPLATES = {
    "template": "the old {s} sees [MASK] today [MASK]",
    "second_template": "a {s} under [MASK] behind the [MASK] .",
    "negative_template": "the {s} [MASK] slowly [MASK] often a",
}
"""Texts of different lengths, in words that the small tokenizers know"""


def looped(views: list[Tensor], temperature: float, *, contrasts_second: bool = True) -> float:
    """Section 2, term by term."""

    def term(left: Tensor, right: Tensor) -> float:
        cosine = float(left @ right) / float(left.norm() * right.norm())
        return math.exp(cosine / temperature)

    first, second, negatives = views
    total = 0.0
    for row, anchor in enumerate(first):
        below = 0.0
        for other in range(len(first)):
            below += term(anchor, second[other]) + term(anchor, negatives[other])
            if contrasts_second:
                below += term(second[row], negatives[other])
        total -= math.log(term(anchor, second[row]) / below)
    return total / len(first)


@pytest.mark.parametrize("contrasts_second", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_the_loss_and_its_gradient(seed: int, contrasts_second: bool) -> None:
    """Against a plain loop, and its gradient against differences of it."""
    torch.manual_seed(seed)
    views = [torch.randn(5, 4, dtype=torch.float64) for _ in range(3)]
    for number, view in enumerate(views):
        leaves = [each.clone().requires_grad_(each is view) for each in views]
        loss = extended_info_nce(*leaves, temperature=0.3, contrasts_second=contrasts_second)

        def value(changed: Tensor, number: int = number) -> float:
            moved = [*views[:number], changed, *views[number + 1 :]]
            return looped(moved, 0.3, contrasts_second=contrasts_second)

        assert loss.item() == pytest.approx(value(view), rel=1e-9)
        loss.backward()
        has_slopes(leaves[number].grad, value, view, ((0, 0), (3, 2)))


def vector(reference: Templates, sentence: list[int], template: Template, denoising: str) -> Tensor:
    """Section 3, case by case."""
    begin, end = [*template.begin], [*template.end]
    whole = [*begin, *sentence, *end]
    places = [*range(len(whole))]
    state = reference.state(whole, places)
    padding = [*begin, *[reference.method.tokenizer.pad_token_id] * len(sentence), *end]
    if denoising == "padding":
        state = state - reference.state(padding, places)
    if denoising == "released":
        state = state - reference.state(padding)
    if denoising == "positions":
        behind = places[len(begin) + len(sentence) :]
        state = state - reference.state([*begin, *end], [*places[: len(begin)], *behind])
    return reference.tanh_head(state)


@pytest.mark.slow
@FAMILIES
@pytest.mark.parametrize("denoising", ["padding", "released", "positions", "none"])
@pytest.mark.usefixtures("equal_views")
def test_losses_of_several_batches(kit_for: KitFor, denoising: str) -> None:
    kit = kit_for("cotbert", batch_size=6, temperature=0.3, denoising=denoising, **TEMPLATES)
    method = kit.build().eval()
    for parameter in method.head.parameters():
        nn.init.normal_(parameter, std=0.3)
    stage, batches = batches_of(kit, method)
    reference = Templates(kit, method)
    for _ in range(3):
        batch = next(batches)
        sentences = reference.sentences(batch["contrastive"])
        assert len({len(sentence) for sentence in sentences}) > 1
        with torch.no_grad():
            views = [
                torch.stack([vector(reference, each, template, denoising) for each in sentences])
                for template in method.templates
            ]
            found = method.losses(batch, stage)
        assert set(found) == {"contrastive"}
        assert found["contrastive"].item() == pytest.approx(looped(views, 0.3), rel=1e-4)


@pytest.mark.usefixtures("equal_views")
def test_gradients_flow_through_the_template_vectors(kit_for: KitFor) -> None:
    kit = kit_for("cotbert", batch_size=6, temperature=0.3, **TEMPLATES)
    method = kit.build().eval()
    stage, batches = batches_of(kit, method)
    batch, reference = next(batches), Templates(kit, method)
    sentences = reference.sentences(batch["contrastive"])
    first, second, negatives = (
        torch.stack([vector(reference, each, template, "padding") for each in sentences])
        for template in method.templates
    )
    similarity = nn.CosineSimilarity(dim=-1)
    pairs = ((first, second), (first, negatives), (second, negatives))
    logits = torch.cat([similarity(one[:, None], two[None]) for one, two in pairs], dim=1) / 0.3
    functional.cross_entropy(logits, torch.arange(6)).backward()
    method.losses(batch, stage)["contrastive"].backward()
    expected = dict(reference.model.named_parameters())
    for name in (
        "embeddings.position_embeddings.weight",
        "encoder.layer.0.attention.self.value.weight",
    ):
        gradient = method.encoder.model.get_parameter(name).grad.double()
        assert torch.allclose(gradient, expected[name].grad, rtol=1e-3, atol=1e-6), name


@FAMILIES
def test_embedding_is_the_state_at_the_last_mask(kit_for: KitFor) -> None:
    """Without denoising and head, on dev as well."""
    kit = kit_for("cotbert", **TEMPLATES)
    method = kit.build().eval()
    _, batches = batches_of(kit, method)
    texts = next(batches)["contrastive"]
    reference = Templates(kit, method)
    with torch.no_grad():
        expected = reference.wrapped(texts, method.template)
        for embed in (method.embed, method.embed_dev):
            assert torch.allclose(embed(texts).double(), expected, atol=1e-5)


def test_the_family_chooses_the_templates(tiny_encoder: Path, tiny_roberta: Path) -> None:
    bert, roberta = (
        resolve(PLUGIN, {"encoder": str(path)}).templates for path in (tiny_encoder, tiny_roberta)
    )
    for texts, quote in ((bert, '"'), (roberta, "'")):
        assert all(text.count(quote) == 2 and text.count("[MASK]") == 2 for text in texts)
    assert "cannot be summarized" in bert[2]
    assert "does not mean" in roberta[2]
    own = resolve(PLUGIN, {"encoder": str(tiny_encoder), "second_template": "{s} [MASK]"})
    assert own.templates == (bert[0], "{s} [MASK]", bert[2])
