"""The poolings of released checkpoints, from pickled files, against models of transformers."""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoModel, AutoTokenizer

from harness.encoders.pickled import convert
from harness.errors import UserError
from harness.evaluation.embedder import Embedder
from tests.families import FAMILIES
from tests.methods.references import KitFor, behind_prompts

LAYERS, HEADS, WIDTH, LENGTH = 2, 4, 32, 5
TEXTS = ["the cat sees the dog", "A Red BIRD near the old house.", 'the "old" dog runs', "the"]
Released = Callable[..., str]


@pytest.fixture
def released(request: pytest.FixtureRequest, family: str, tmp_path: Path) -> Released:
    """released(part=tensor, ...): a pickled checkpoint of a family, as a class of its authors."""

    def save(**parts: Tensor) -> str:
        folder = tmp_path / "authors" / "checkpoint"
        shutil.copytree(request.getfixturevalue(family), folder)
        weights = load_file(folder / "model.safetensors")
        kind = json.loads((folder / "config.json").read_text())["model_type"]
        inner = {name.removeprefix(f"{kind}."): value for name, value in weights.items()}
        encoder = {f"{kind}.{name}": value for name, value in inner.items()}
        (folder / "model.safetensors").unlink()
        further = {name.replace("__", "."): value for name, value in parts.items()}
        torch.save(encoder | further, folder / "pytorch_model.bin")
        return str(convert(str(folder)).parent)

    return save


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0)) * 0.5


PROMPTS = {"prefix_encoder__embedding__weight": random(LENGTH, 2 * LAYERS * WIDTH)}
MLP = {"mlp__dense__weight": random(WIDTH, WIDTH), "mlp__dense__bias": random(WIDTH)}
POOLER = {"pooler__dense__weight": random(WIDTH, WIDTH), "pooler__dense__bias": random(WIDTH)}


def vectors(kit_for: KitFor, checkpoint: str, pooling: str) -> np.ndarray:
    """The test vectors that the harness makes of TEXTS."""
    kit = kit_for("pooling", encoder=checkpoint, pooling=pooling)
    return Embedder(kit.build(), kit)(TEXTS)


def states(
    checkpoint: str, texts: Sequence[str], prompts: Tensor | None = None
) -> list[tuple[Tensor, Tensor]]:
    """The pieces and the last states of each text by transformers, in float64, one at a time."""
    tokenizer: Any = AutoTokenizer.from_pretrained(checkpoint)
    model = AutoModel.from_pretrained(checkpoint, attn_implementation="eager").double().eval()
    rows = []
    for text in texts:
        ids = tokenizer(text, return_tensors="pt").input_ids
        with torch.no_grad():
            if prompts is None:
                rows.append((ids[0], model(ids).last_hidden_state[0]))
            else:
                pairs = prompts.double().view(LENGTH, LAYERS, 2, HEADS, WIDTH // HEADS)
                rows.append((ids[0], behind_prompts(model, pairs, ids[0])))
    return rows


def headed(vector: Tensor, parts: dict[str, Tensor]) -> np.ndarray:
    weight, bias = (value.double() for value in parts.values())
    return torch.tanh(weight @ vector + bias).numpy()


@FAMILIES
def test_supervised_simcse_has_a_layer_behind_cls(kit_for: KitFor, released: Released) -> None:
    checkpoint = released(**POOLER)
    expected = [headed(state[0], POOLER) for _, state in states(checkpoint, TEXTS)]
    assert vectors(kit_for, checkpoint, "pooler") == pytest.approx(np.stack(expected), abs=1e-5)


@FAMILIES
@pytest.mark.parametrize("pooling", ["prompts", "prompts-pooler"])
def test_promcse_reads_behind_prompts(kit_for: KitFor, released: Released, pooling: str) -> None:
    checkpoint = released(**PROMPTS, **MLP)
    [table] = PROMPTS.values()
    found = [state[0] for _, state in states(checkpoint, TEXTS, table)]
    expected = [headed(each, MLP) if pooling != "prompts" else each.numpy() for each in found]
    assert vectors(kit_for, checkpoint, pooling) == pytest.approx(np.stack(expected), abs=1e-5)


@FAMILIES
def test_promptbert_takes_the_state_of_the_mask(
    kit_for: KitFor, released: Released, family: str
) -> None:
    """In the templates of its evaluation script, which ends a sentence with a full stop."""
    checkpoint = released(**MLP)
    tokenizer: Any = AutoTokenizer.from_pretrained(checkpoint)
    around = 'This sentence of "{}" means [MASK].'
    if family == "tiny_roberta":
        around = "This sentence : ' {} ' means[MASK]."
    ended = [text if text.endswith((".", '"')) else f"{text}." for text in TEXTS]
    prompts = [around.format(text).replace("[MASK]", tokenizer.mask_token) for text in ended]
    expected = [
        state[ids == tokenizer.mask_token_id][0].numpy()
        for ids, state in states(checkpoint, prompts)
    ]
    assert vectors(kit_for, checkpoint, "mask") == pytest.approx(np.stack(expected), abs=1e-5)


@pytest.mark.parametrize("family", ["tiny_encoder"])
@pytest.mark.parametrize(
    ("pooling", "parts", "message"),
    [
        ("pooler", MLP, "has no tensor pooler.dense.weight, which pooling=pooler reads"),
        ("prompts", MLP, "has no tensor prefix_encoder.embedding.weight"),
        (
            "prompts",
            {"prefix_encoder__embedding__weight": random(LENGTH, WIDTH)},
            "prefix_encoder.embedding.weight has the shape [5, 32], and [5, 128] is asked for",
        ),
    ],
)
def test_what_a_checkpoint_lacks_is_said(
    kit_for: KitFor, released: Released, pooling: str, parts: dict[str, Tensor], message: str
) -> None:
    with pytest.raises(UserError) as error:
        vectors(kit_for, released(**parts), pooling)
    assert message in str(error.value)
