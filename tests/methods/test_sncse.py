"""SNCSE against sncse.md."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from harness.data.tokens import piece_ids
from harness.errors import UserError
from harness.plugin import registry
from tests.families import FAMILIES
from tests.methods.references import KitFor, Vectors, batches_of, cosine, has_slopes, info_nce

PLUGIN = registry.load("sncse")
bidirectional_margin = PLUGIN.method.losses.__globals__["bidirectional_margin"]


def margin(first: Vectors, second: Vectors, negated: Vectors, low: float, high: float) -> float:
    """Section 1, word by word."""
    total = 0.0
    for one, other, negation in zip(first, second, negated, strict=True):
        difference = cosine(one, negation) - cosine(one, other)
        total += max(0.0, difference + low) + max(0.0, -difference - high)
    return total / len(first)


@pytest.mark.parametrize("seed", range(4))
def test_the_margin_and_its_gradient(seed: int) -> None:
    """Against a plain loop, and its gradient against differences of it."""
    torch.manual_seed(seed)
    near = torch.randn(5, 4, dtype=torch.float64)
    views = [near + spread * torch.randn(5, 4, dtype=torch.float64) for spread in (0.1, 0.2, 0.5)]

    def looped(first: Tensor) -> float:
        return margin(first.tolist(), views[1].tolist(), views[2].tolist(), 0.1, 0.3)

    leaf = views[0].clone().requires_grad_()
    loss = bidirectional_margin(leaf, *views[1:], smallest=0.1, largest=0.3)
    assert loss.item() == pytest.approx(looped(views[0]), rel=1e-5)
    loss.backward()
    has_slopes(leaf.grad, looped, views[0], rel=1e-3, abs=1e-6)


@FAMILIES
@pytest.mark.usefixtures("equal_views")
def test_losses_of_a_batch(kit_for: KitFor, sentences: Path, tmp_path: Path) -> None:
    """Each text is put into its template by hand, and read alone."""
    lines = sentences.read_text().splitlines()
    own = {line: f"{line} slowly" for line in lines[::2]}
    file = tmp_path / "negations.txt"
    file.write_text("".join(f"{json.dumps(pair)}\n" for pair in own.items()))
    kit = kit_for("sncse", negations=str(file), max_length=60, batch_size=6)
    method = kit.build().eval()
    stage, batches = batches_of(kit, method)
    assert stage.losses == {"contrastive": 1.0, "margin": kit.config.margin_weight}

    def vector(text: str, template: Any) -> list[float]:
        pieces = [*template.begin, *piece_ids(method.tokenizer, [text])[0], *template.end]
        with torch.no_grad():
            states = method.encoder.model(torch.tensor([pieces])).last_hidden_state[0]
            found = method.head(states[pieces.index(method.tokenizer.mask_token_id)])
        return list(found.double().tolist())

    for _ in range(3):
        batch = next(batches)
        losses = method.losses(batch, stage)
        read = [lines[item] for item in batch["contrastive"].items.tolist()]
        first = [vector(text, method.template) for text in read]
        second = [vector(text, method.second_template) for text in read]
        negated = [vector(own.get(text, f"Not {text}"), method.second_template) for text in read]
        assert losses["contrastive"].item() == pytest.approx(
            info_nce(first, second, 0.05), rel=1e-3
        )
        expected = margin(first, second, negated, 0.1, 0.3)
        assert losses["margin"].item() == pytest.approx(expected, rel=1e-3, abs=1e-6)


def test_embedding_is_the_state_at_the_mask(kit_for: KitFor) -> None:
    kit = kit_for("sncse")
    method = kit.build().eval()
    _, batches = batches_of(kit, method)
    texts = next(batches)["contrastive"]
    states = method.encoder(texts)
    masked = states[texts.input_ids == method.tokenizer.mask_token_id]
    assert torch.allclose(method.embed(texts), masked, atol=1e-6)


@pytest.mark.parametrize("line", ["no json", '["one"]', '["one", 2]', '{"one": "two"}'])
def test_a_wrong_line_is_named(kit_for: KitFor, tmp_path: Path, line: str) -> None:
    file = tmp_path / "negations.txt"
    file.write_text(f'["a cat", "no cat"]\n{line}\n')
    with pytest.raises(UserError, match=r'negations\.txt, line 2: \["SENTENCE", "ITS NEGATION"\]'):
        kit_for("sncse", negations=str(file)).build()
