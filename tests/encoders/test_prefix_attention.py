"""`Encoder` against a BERT forward pass written out in numpy float64.

Prompts, positions, padding, and the two places of [CLS]: its word vector and its embedding output.
"""

import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from harness.data.batching import TextBatch
from harness.encoders.backbone import Encoder
from harness.encoders.reach import KeyValues, WordVectors, first_replaced
from harness.errors import UserError
from harness.modules.prompts import DeepPrompts
from tests.rows_and_models import text

HEADS, LAYERS, WIDTH = 4, 2, 32
SIZE = WIDTH // HEADS
LENGTH = 6
Weights = Mapping[str, np.ndarray]


@pytest.fixture
def batch() -> TextBatch:
    return text([6, 4, 1])


@pytest.fixture(params=["tiny_encoder", "tiny_roberta"])
def folder(request: pytest.FixtureRequest) -> Path:
    path: Path = request.getfixturevalue(request.param)
    return path


@pytest.fixture
def encoder(folder: Path) -> Encoder:
    return Encoder(str(folder)).double().eval()


def at_first(vector: torch.Tensor) -> WordVectors:
    """A vector in the place of the first token's word embedding, in three rows."""
    return WordVectors(torch.zeros(3, 1, dtype=torch.long), vector[None])


def mask_of(lengths: list[int], width: int = LENGTH) -> torch.Tensor:
    return torch.tensor(
        [[int(position < length) for position in range(width)] for length in lengths]
    )


def first_position(folder: Path) -> int:
    """The positions of RoBERTa start behind its padding id, 1."""
    return 2 if "roberta" in folder.name else 0


def read_weights(folder: Path) -> Weights:
    stored = load_file(folder / "model.safetensors")
    prefix = "roberta." if "roberta" in folder.name else "bert."
    return {name.removeprefix(prefix): value.double().numpy() for name, value in stored.items()}


def linear(x: np.ndarray, weights: Weights, name: str) -> np.ndarray:
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def layer_norm(x: np.ndarray, weights: Weights, name: str) -> np.ndarray:
    centred = x - x.mean(axis=-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-12)
    return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def gelu(x: np.ndarray) -> np.ndarray:
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def reference(
    weights: Weights,
    ids: np.ndarray,
    positions: np.ndarray,
    *,
    prompts: np.ndarray | None = None,
    visible: np.ndarray | None = None,
    first_word: np.ndarray | None = None,
    first_embedding: np.ndarray | None = None,
) -> np.ndarray:
    """The last states of ONE row, (length, WIDTH).

    The row has no padding. prompts: (layers, 2, prompts, WIDTH), keys then values. visible:
    (prompts,), which of them the row sees.
    """
    words = weights["embeddings.word_embeddings.weight"][ids]
    if first_word is not None:
        words[0] = first_word
    summed = words + weights["embeddings.position_embeddings.weight"][positions]
    summed = summed + weights["embeddings.token_type_embeddings.weight"][0]
    states = layer_norm(summed, weights, "embeddings.LayerNorm")
    if first_embedding is not None:
        states[0] = first_embedding
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}"
        query, key, value = (
            linear(states, weights, f"{name}.attention.self.{part}")
            for part in ("query", "key", "value")
        )
        if prompts is not None:
            seen = slice(None) if visible is None else np.flatnonzero(visible)
            key, value = (
                np.concatenate([front[seen], own])
                for front, own in zip(prompts[layer], (key, value), strict=True)
            )
        attended = np.zeros_like(states)
        for head in range(HEADS):
            own = slice(head * SIZE, (head + 1) * SIZE)
            for position in range(len(ids)):
                scores = np.exp(key[:, own] @ query[position, own] / math.sqrt(SIZE))
                attended[position, own] = (scores / scores.sum()) @ value[:, own]
        states = layer_norm(
            states + linear(attended, weights, f"{name}.attention.output.dense"),
            weights,
            f"{name}.attention.output.LayerNorm",
        )
        inner = linear(
            gelu(linear(states, weights, f"{name}.intermediate.dense")),
            weights,
            f"{name}.output.dense",
        )
        states = layer_norm(states + inner, weights, f"{name}.output.LayerNorm")
    return states


def assert_rows_match(
    states: torch.Tensor,
    folder: Path,
    batch: TextBatch,
    offset: int = 0,
    per_row: list[dict[str, Any]] | None = None,
) -> None:
    """Every row of `states` equals the reference on that row alone, at its real tokens."""
    weights = read_weights(folder)
    for row, length in enumerate(batch.attention_mask.sum(dim=1).tolist()):
        positions = np.arange(length) + first_position(folder) + offset
        options = per_row[row] if per_row else {}
        expected = reference(weights, batch.input_ids[row, :length].numpy(), positions, **options)
        assert np.abs(states[row, :length].detach().numpy() - expected).max() <= 1e-10, row


def prompts_of(encoder: Encoder, length: int) -> DeepPrompts:
    prompts = DeepPrompts(encoder, length).double().eval()
    with torch.no_grad():
        prompts.table.copy_(
            torch.randn(prompts.table.shape, generator=torch.Generator().manual_seed(2))
        )
    return prompts


def as_array(prompts: DeepPrompts) -> np.ndarray:
    """(prompts, 2 * layers * WIDTH), key 0, value 0, key 1 ... -> (layers, 2, prompts, WIDTH)."""
    table = prompts.table.detach().numpy()
    slots = [table[:, slot * WIDTH : (slot + 1) * WIDTH] for slot in range(2 * LAYERS)]
    return np.array([[slots[2 * layer], slots[2 * layer + 1]] for layer in range(LAYERS)])


def test_plain_encoder(encoder: Encoder, folder: Path, batch: TextBatch) -> None:
    assert_rows_match(encoder(batch), folder, batch)


@pytest.mark.parametrize("offset", [0, 5])
@pytest.mark.parametrize("padded", [False, True])
def test_deep_prompts(
    encoder: Encoder, folder: Path, batch: TextBatch, padded: bool, offset: int
) -> None:
    """Positions are shifted on demand. Tokens see the prompts also where nothing is padded."""
    if not padded:
        batch = TextBatch(batch.input_ids, torch.ones_like(batch.input_ids), batch.items)
    prompts = prompts_of(encoder, 5)
    found = encoder(batch, prefix=prompts(3), position_offset=offset)
    per_row = [{"prompts": as_array(prompts)}] * 3
    assert_rows_match(found, folder, batch, offset=offset, per_row=per_row)


def test_first_word_replaces_the_word_embedding(
    encoder: Encoder, folder: Path, batch: TextBatch
) -> None:
    vector = torch.randn(WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    found = encoder(batch, words=at_first(vector), position_offset=4)
    assert_rows_match(found, folder, batch, offset=4, per_row=[{"first_word": vector.numpy()}] * 3)


def test_first_embedding_replaces_the_embedding_output(
    encoder: Encoder, folder: Path, batch: TextBatch
) -> None:
    vectors = torch.randn(3, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    found = encoder(batch, edit=first_replaced(vectors))
    assert_rows_match(
        found, folder, batch, per_row=[{"first_embedding": vector} for vector in vectors.numpy()]
    )


def test_slots_are_empty_again_after_a_pass(encoder: Encoder, batch: TextBatch) -> None:
    before = encoder(batch)
    encoder(batch, words=at_first(torch.ones(WIDTH)), edit=first_replaced(torch.ones(3, WIDTH)))
    with pytest.raises(RuntimeError):
        encoder(batch, edit=first_replaced(torch.ones(3, WIDTH + 1)))
    assert torch.equal(encoder(batch), before)


def test_slots_receive_gradients(encoder: Encoder, batch: TextBatch) -> None:
    word = torch.randn(WIDTH, dtype=torch.float64, requires_grad=True)
    vectors = torch.randn(3, WIDTH, dtype=torch.float64, requires_grad=True)
    prompts = prompts_of(encoder, 2)
    encoder(batch, prefix=prompts(3), words=at_first(word))[:, 0].pow(3).sum().backward()
    encoder(batch, edit=first_replaced(vectors)).pow(3).sum().backward()
    assert word.grad is not None
    assert word.grad.abs().max() > 0
    assert vectors.grad is not None
    assert (vectors.grad.abs().amax(dim=1) > 0).all()


@pytest.mark.parametrize("padded", [False, True])
def test_invisible_prompts_are_as_left_out(
    encoder: Encoder, folder: Path, batch: TextBatch, padded: bool
) -> None:
    prompts = prompts_of(encoder, 4)
    if not padded:
        batch = TextBatch(batch.input_ids, torch.ones_like(batch.input_ids), batch.items)
    visible = torch.tensor([[1, 1, 1, 1], [0, 1, 0, 1], [0, 0, 0, 0]]).bool()
    drawn = prompts(3)
    states = encoder(batch, prefix=KeyValues(drawn.keys, drawn.values, visible), position_offset=4)
    table = as_array(prompts)
    per_row = [{"prompts": table, "visible": visible[row].numpy()} for row in range(3)]
    assert_rows_match(states, folder, batch, offset=4, per_row=per_row)


def test_prompt_dropout_differs_per_row_and_only_in_training(encoder: Encoder) -> None:
    torch.manual_seed(6)
    prompts = prompts_of(encoder, 50)
    still = prompts(3)
    assert all(torch.equal(keys[0], keys[2]) for keys in (*still.keys, *still.values))
    dropped = prompts.train()(3)
    for part, full in zip(
        (*dropped.keys, *dropped.values), (*still.keys, *still.values), strict=True
    ):
        zero = part == 0
        assert not torch.equal(zero[0], zero[1])
        assert (part[~zero] - full[~zero] / 0.9).abs().max() < 1e-12
        assert abs(zero.double().mean().item() - 0.1) < 5 * math.sqrt(0.09 / part.numel())


def test_prompts_start_small_and_have_two_vectors_a_layer(encoder: Encoder) -> None:
    torch.manual_seed(7)
    prompts = DeepPrompts(encoder, 200)
    assert [parameter.numel() for parameter in prompts.parameters()] == [2 * LAYERS * WIDTH * 200]
    assert prompts.table.std().item() == pytest.approx(0.02, rel=0.03)
    assert prompts.table.mean().item() == pytest.approx(0, abs=1e-3)


def test_checkpoint_without_a_layer_is_refused(folder: Path, tmp_path: Path) -> None:
    """Random weights inside a pretrained encoder would give wrong vectors without an error."""
    shutil.copy(folder / "config.json", tmp_path)
    weights = load_file(folder / "model.safetensors")
    kept = {name: value for name, value in weights.items() if "layer.1." not in name}
    save_file(kept, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UserError, match=r"layer\.1\."):
        Encoder(str(tmp_path))
