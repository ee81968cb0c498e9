"""DiffAug's divergence and convergence against their formulas, written out on the tiny encoder."""

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from harness.data.batching import Stream, StreamOptions, TextBatch
from harness.plugin.kit import Kit
from methods.diffaug.analysis import representation_divergence, weight_convergence
from tests.families import FAMILIES

LENGTH = 2


@pytest.fixture
def parts(
    kit_for: Callable[..., Kit], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Kit, Any]:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path))
    kit = kit_for(
        "diffaug", prompt_length=LENGTH, template="the {s} a [MASK] .", share_network=False
    )
    torch.manual_seed(0)
    method = kit.build()
    with torch.no_grad():
        for parameter in method.augmentation.parameters():
            parameter.normal_(std=0.5)
    return kit, method.eval()


def batches(kit: Kit, method: Any, stream: str) -> Iterator[TextBatch]:
    """Three batches with different lengths."""
    corpus = method.corpora(kit.config)[stream]
    return islice(
        Stream(
            kit.tokens(corpus, method.template),
            method.template,
            StreamOptions(limit=20, batch_size=7, seed=0),
        ),
        3,
    )


def modules(rows: int, number: int) -> torch.Tensor:
    return torch.full((rows,), number)


def row_by_row(method: Any, batch: TextBatch, number: int) -> list[torch.Tensor]:
    """Sentence vectors, one sentence at a time and without padding."""
    rows = []
    for ids, mask in zip(batch.input_ids, batch.attention_mask, strict=True):
        one = TextBatch(ids[None, : mask.sum()], mask[None, : mask.sum()], torch.zeros(1))
        where = (one.input_ids == method.tokenizer.mask_token_id).nonzero()[0, 1]
        states = method.encoder(one, **method.augmentation.reach(1, modules(1, number)))
        rows.append(states[0, where].double())
    return rows


@FAMILIES
@torch.no_grad()
def test_divergence_of_a_sentence_with_itself(parts: tuple[Kit, Any]) -> None:
    kit, method = parts
    raw, unit = [], []
    for batch in batches(kit, method, "contrastive"):
        for one, two in zip(
            row_by_row(method, batch, 0), row_by_row(method, batch, 1), strict=True
        ):
            raw.append(float((one - two).norm()))
            unit.append(float((one / one.norm() - two / two.norm()).norm()))
    divergence = representation_divergence(method.states, batches(kit, method, "contrastive"))
    assert divergence.raw == pytest.approx(sum(raw) / len(raw), rel=1e-5)
    assert divergence.unit == pytest.approx(sum(unit) / len(unit), rel=1e-5)
    assert divergence.raw > 0.1


@FAMILIES
@torch.no_grad()
def test_divergence_of_premises_and_entailments(parts: tuple[Kit, Any]) -> None:
    kit, method = parts
    distances = []
    for batch in batches(kit, method, "labelled"):
        views = zip(
            row_by_row(method, batch.view(0), 0), row_by_row(method, batch.view(1), 1), strict=True
        )
        distances += [float((one - two).norm()) for one, two in views]
    found = representation_divergence(method.states, batches(kit, method, "labelled"))
    assert found.raw == pytest.approx(sum(distances) / len(distances), rel=1e-5)


def test_dropout_is_a_reference_line(parts: tuple[Kit, Any]) -> None:
    """The distance is 0 without modules and dropout, and greater with dropout."""
    kit, method = parts

    def plain(batch: TextBatch, _modules: torch.Tensor) -> torch.Tensor:
        return method.encoder.at(batch, method.template.mask_positions(batch.attention_mask))

    assert representation_divergence(plain, batches(kit, method, "contrastive")).raw == 0
    method.train()
    assert representation_divergence(plain, batches(kit, method, "contrastive")).raw > 0.01


@FAMILIES
@torch.no_grad()
def test_convergence_is_a_difference_of_mean_row_norms(parts: tuple[Kit, Any]) -> None:
    kit, method = parts
    encoder = method.encoder
    layers, width = encoder.model.config.num_hidden_layers, encoder.hidden_size
    text: dict[tuple[str, int], list[float]] = {}
    for batch in batches(kit, method, "labelled"):
        for number in (0, 1):
            part = batch.view(number)
            states = encoder.layers(
                part,
                **method.augmentation.reach(
                    len(part.input_ids), modules(7, number)[: len(part.input_ids)]
                ),
            )
            for layer in range(layers):
                attention = encoder.model.encoder.layer[layer].attention.self
                for name in ("key", "value"):
                    linear = getattr(attention, name)
                    for state, mask in zip(states[layer], part.attention_mask, strict=True):
                        for position in range(int(mask.sum())):
                            row = linear.weight @ state[position] + linear.bias
                            text.setdefault((name, layer), []).append(float(row.norm()))
    convergence = weight_convergence(
        method.states, encoder, method.augmentation, batches(kit, method, "labelled")
    )
    for name, values in (("key", convergence.keys), ("value", convergence.values)):
        assert len(values) == layers
        for layer, value in enumerate(values):
            slot = 2 * layer + (name == "value")
            prefix = [
                float(network(row)[slot * width : (slot + 1) * width].norm())
                for table, network in zip(
                    method.augmentation.table, method.augmentation.networks, strict=True
                )
                for row in table
            ]
            norms = text[name, layer]
            expected = sum(norms) / len(norms) - sum(prefix) / len(prefix)
            assert value == pytest.approx(expected, abs=1e-5), (name, layer)
    assert convergence.mean == pytest.approx(
        sum(convergence.keys + convergence.values) / (2 * layers)
    )
    parts = encoder.model.encoder.layer[0].attention.self.children()
    assert not any(part._forward_hooks for part in parts), "its hooks are gone"
