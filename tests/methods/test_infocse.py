"""InfoCSE against infocse.md."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from harness.errors import UserError
from harness.plugin import registry
from harness.training.feeding import stage_streams
from tests.families import FAMILIES
from tests.methods.references import KitFor, batches_of

PLUGIN = registry.load("infocse")


def row_reconstruction(
    method: Any, sentence: np.ndarray, words: np.ndarray, answers: list[tuple[int, int]]
) -> float:
    """The sum of the cross entropies of one row without padding, head after head, in float64.

    sentence: (H,); words: (length, H) of the lower layers; answers: position and piece.
    """
    states = np.concatenate([sentence[None], words[1:]])
    for layer in method.auxiliary:
        states = bert_layer(layer, states)
    logits = [method.vocabulary.double()(torch.from_numpy(states[where])) for where, _ in answers]
    losses = [
        -math.log(functional.softmax(row, dim=0)[piece])
        for row, (_, piece) in zip(logits, answers, strict=True)
    ]
    return sum(losses)


def affine(linear: Any, states: np.ndarray) -> np.ndarray:
    return (
        states @ linear.weight.detach().double().numpy().T + linear.bias.detach().double().numpy()
    )


def norm(states: np.ndarray) -> np.ndarray:
    """LayerNorm; its weights have not been trained."""
    centred = states - states.mean(axis=1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-12)


def bert_layer(layer: Any, states: np.ndarray) -> np.ndarray:
    """A layer of BERT on one row (Vaswani et al. 2017, section 3; GELU; norms behind)."""
    attention = layer.attention.self
    heads = attention.num_attention_heads
    size = states.shape[1] // heads
    query, key, value = (affine(each, states) for each in
                         (attention.query, attention.key, attention.value))  # fmt: skip
    attended = np.zeros_like(states)
    for head in range(heads):
        part = slice(head * size, (head + 1) * size)
        for position in range(len(states)):
            scores = [query[position, part] @ other / math.sqrt(size) for other in key[:, part]]
            terms = np.exp(np.array(scores) - max(scores))
            attended[position, part] = terms / terms.sum() @ value[:, part]
    middle = norm(affine(layer.attention.output.dense, attended) + states)
    inner = affine(layer.intermediate.dense, middle)
    inner *= 0.5 * (1 + np.vectorize(math.erf)(inner / math.sqrt(2)))
    return norm(affine(layer.output.dense, inner) + middle)


@FAMILIES
@pytest.mark.usefixtures("equal_views")
def test_the_reconstruction_of_a_batch(kit_for: KitFor) -> None:
    """The reconstruction is the mean over the chosen positions of all rows."""
    kit = kit_for("infocse", batch_size=4, masking_ratio=0.5, lower_layers=1)
    method = kit.build().eval()
    stage, batches = batches_of(kit, method)
    for step in range(3):
        rows = next(batches)["contrastive"]
        torch.manual_seed(step)
        with torch.no_grad():
            loss = method.float().losses({"contrastive": rows}, stage)["reconstruction"].item()
            torch.manual_seed(step)
            rows = rows.repeated(2)
            masked = method.masker(rows.input_ids)
            read = rows.replaced(masked.input_ids, rows.attention_mask)
            words = method.encoder.layers(read)[1].double().numpy()
            sentences = method.encoder.cls(rows).double().numpy()
            total, count = 0.0, 0
            for number, length in enumerate(rows.attention_mask.sum(dim=1).tolist()):
                answers = [
                    (place, int(rows.input_ids[number, place]))
                    for place in range(length)
                    if masked.chosen[number, place]
                ]
                total += row_reconstruction(
                    method, sentences[number], words[number, :length], answers
                )
                count += len(answers)
        assert count
        assert loss == pytest.approx(total / count, rel=1e-4)


def test_the_reconstruction_trains_the_encoder_through_the_sentence_vector(kit_for: KitFor) -> None:
    kit = kit_for("infocse", batch_size=6, masking_ratio=0.5)
    method = kit.build().train()
    stage, batches = batches_of(kit, method)
    batch = next(batches)
    method.losses(batch, stage)["reconstruction"].backward()
    gradients = {
        name: value.grad for name, value in method.named_parameters() if value.grad is not None
    }
    parts = {name.split(".")[0] for name in gradients}
    assert parts == {"encoder", "auxiliary", "vocabulary"}
    assert any(value.any() for name, value in gradients.items() if name.startswith("encoder."))


def test_the_lower_layers_are_those_of_the_encoder(kit_for: KitFor) -> None:
    kit = kit_for("infocse", batch_size=4)
    method = kit.build().eval()
    (stage,) = kit.declared.stages
    rows = next(iter(stage_streams(method, kit, stage, seed=0).values())).batches().__next__()
    real = rows.attention_mask.bool()
    with torch.no_grad():
        assert method.lower(rows)[real].equal(method.encoder.layers(rows)[1][real])
    layers = [name for name, _ in method.lower.named_parameters() if "layer.1." in name]
    assert layers == []


def test_more_layers_than_the_encoder_has(kit_for: KitFor) -> None:
    with pytest.raises(UserError, match="has 2 layers, and 3 of them are asked for"):
        kit_for("infocse", lower_layers=3).build()
