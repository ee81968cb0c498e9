"""CoT-BERT against cotbert.md. The reference runs every row alone, in float64."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AutoModel

from harness.data.batching import TextBatch
from harness.data.tokens import Template
from harness.plugin import registry
from harness.plugin.kit import Kit
from harness.plugin.resolution import resolve
from tests.families import FAMILIES
from tests.methods.references import KitFor, batches_of

PLUGIN = registry.load("cotbert")
extended_info_nce = PLUGIN.method.losses.__globals__["extended_info_nce"]
TEMPLATES = {
    "template": "the old {s} sees [MASK] today [MASK]",
    "second_template": "a {s} under [MASK] behind the [MASK] .",
    "negative_template": "the {s} [MASK] slowly [MASK] often a",
}
"""Of different lengths, in words that the small tokenizers know"""


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
        given = [each.clone() for each in views]
        given[number].requires_grad_()
        loss = extended_info_nce(*given, temperature=0.3, contrasts_second=contrasts_second)
        expected = looped(views, 0.3, contrasts_second=contrasts_second)
        assert loss.item() == pytest.approx(expected, rel=1e-9)
        loss.backward()
        for place in ((0, 0), (3, 2)):
            sides = []
            for sign in (1, -1):
                moved = view.clone()
                moved[place] += sign * 1e-6
                changed = [*views[:number], moved, *views[number + 1 :]]
                sides.append(looped(changed, 0.3, contrasts_second=contrasts_second))
            slope = (sides[0] - sides[1]) / 2e-6
            assert float(given[number].grad[place]) == pytest.approx(slope, rel=1e-4, abs=1e-8)


class Reference:
    """States at the last mask by plain calls of transformers, one row at a time."""

    def __init__(self, kit: Kit, method: Any) -> None:
        source = kit.config.encoder
        model = AutoModel.from_pretrained(source, attn_implementation="eager")
        self.model, self.method = model.double().eval(), method
        self.first = 2 if "roberta" in source else 0
        self.tokenizer = method.tokenizer

    def state(self, pieces: list[int], places: list[int] | None = None) -> Tensor:
        """places: from 0; None: as the model numbers them by itself."""
        places_of = None if places is None else torch.tensor([places]) + self.first
        ids = torch.tensor([pieces])
        seen = torch.ones_like(ids)
        states = self.model(ids, attention_mask=seen, position_ids=places_of).last_hidden_state
        masks = [place for place, piece in enumerate(pieces) if piece == self.mask]
        assert len(masks) == 2
        row: Tensor = states[0, masks[-1]]
        return row

    @property
    def mask(self) -> int:
        return int(self.tokenizer.mask_token_id)

    def sentences(self, batch: TextBatch) -> list[list[int]]:
        """The pieces of each row without its template."""
        begin, end = len(self.method.template.begin), len(self.method.template.end)
        lengths = batch.attention_mask.sum(dim=1).tolist()
        rows = zip(batch.input_ids, lengths, strict=True)
        return [ids[begin : length - end].tolist() for ids, length in rows]

    def vector(self, sentence: list[int], template: Template, denoising: str) -> Tensor:
        """Section 3, case by case."""
        begin, end = [*template.begin], [*template.end]
        whole = [*begin, *sentence, *end]
        places = [*range(len(whole))]
        state = self.state(whole, places)
        padding = [self.tokenizer.pad_token_id] * len(sentence)
        if denoising == "padding":
            state = state - self.state([*begin, *padding, *end], places)
        if denoising == "released":
            state = state - self.state([*begin, *padding, *end])
        if denoising == "positions":
            behind = places[len(begin) + len(sentence) :]
            state = state - self.state([*begin, *end], [*places[: len(begin)], *behind])
        linear = self.method.head.linear
        headed: Tensor = torch.tanh(linear.weight.double() @ state + linear.bias.double())
        return headed


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
    reference = Reference(kit, method)
    for _ in range(3):
        batch = next(batches)
        sentences = reference.sentences(batch["contrastive"])
        assert len({len(sentence) for sentence in sentences}) > 1
        with torch.no_grad():
            views = [
                torch.stack([reference.vector(each, template, denoising) for each in sentences])
                for template in method.templates
            ]
            found = method.losses(batch, stage)
        assert set(found) == {"contrastive"}
        assert found["contrastive"].item() == pytest.approx(looped(views, 0.3), rel=1e-4)


@pytest.mark.parametrize("family", ["tiny_encoder", "tiny_roberta"])
def test_released_positions_differ_on_roberta_alone(kit_for: KitFor, family: str) -> None:
    found = []
    for denoising in ("padding", "released"):
        torch.manual_seed(0)
        kit = kit_for("cotbert", denoising=denoising, encoder_dropout=0.0, **TEMPLATES)
        method = kit.build().eval()
        method.encoder.checks_views = False
        stage, batches = batches_of(kit, method)
        found.append(method.losses(next(batches), stage)["contrastive"].item())
    assert (found[0] == pytest.approx(found[1], rel=1e-6)) is (family == "tiny_encoder")


@pytest.mark.usefixtures("equal_views")
def test_gradients_flow_through_the_template_vectors(kit_for: KitFor) -> None:
    kit = kit_for("cotbert", batch_size=6, temperature=0.3, **TEMPLATES)
    method = kit.build().eval()
    stage, batches = batches_of(kit, method)
    batch, reference = next(batches), Reference(kit, method)
    sentences = reference.sentences(batch["contrastive"])
    first, second, negatives = (
        torch.stack([reference.vector(each, template, "padding") for each in sentences])
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
    reference = Reference(kit, method)
    template = method.template
    with torch.no_grad():
        expected = torch.stack([
            reference.state([*template.begin, *sentence, *template.end])
            for sentence in reference.sentences(texts)
        ])  # fmt: skip
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
