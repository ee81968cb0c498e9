"""Vectors of a whole corpus from an encoder that never changes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from harness import device
from harness.modules.vector_table import VectorTable
from harness.plugin.corpus_vectors import corpus_vectors, vector_groups
from harness.plugin.kit import Kit
from tests.families import FAMILIES

KitFor = Callable[..., Kit]


def by_transformers(kit: Kit, corpus: Path, pooling: str, max_length: int) -> np.ndarray:
    """The vectors, text by text, by plain calls of transformers: (items, columns, width)."""
    model = kit.encoder().eval().model
    header = 1 if corpus.suffix == ".csv" else 0
    rows = [line.split(",") for line in corpus.read_text().splitlines()[header:]]
    return np.array(
        [[_vector(kit, model, text, pooling, max_length) for text in row] for row in rows]
    )


@torch.no_grad()
def _vector(kit: Kit, model: Any, text: str, pooling: str, max_length: int) -> np.ndarray:
    pieces = kit.tokenizer(text, truncation=True, max_length=max_length, return_tensors="pt")
    output = model(input_ids=pieces["input_ids"], output_hidden_states=True)
    states = output.last_hidden_state[0].double()
    if pooling == "first-last":
        states = (states + output.hidden_states[1][0].double()) / 2
    pooled: np.ndarray = (states[0] if pooling == "cls" else states.mean(dim=0)).numpy()
    return pooled


@pytest.mark.slow
@FAMILIES
@pytest.mark.parametrize(
    ("pooling", "max_length"),
    [("mean", 128), ("cls", 128), ("first-last", 64), ("mean", 6), ("first-last", 4)],
)
def test_every_text_without_dropout(
    kit_for: KitFor, triplets: Path, pooling: Any, max_length: int
) -> None:
    """The encoders have 40 positions, fewer than most limits; the texts have 2 to 12 words."""
    kit = kit_for("whitening", corpus=str(triplets))
    torch.manual_seed(5)
    vectors = corpus_vectors(kit, str(triplets), pooling, max_length)
    assert vectors.shape == (20, 3, 32)
    assert vectors.dtype == np.float32
    assert np.abs(vectors - by_transformers(kit, triplets, pooling, max_length)).max() < 1e-5


def test_groups_are_small_and_hold_every_text_once(
    kit_for: KitFor, triplets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit = kit_for("whitening", corpus=str(triplets))
    whole = corpus_vectors(kit, str(triplets), "mean", 64).reshape(60, 32)
    monkeypatch.setitem(device.TOKENS_PER_BATCH, "cpu", 40)
    groups = list(vector_groups(kit, str(triplets), "mean", 64))
    assert len(groups) > 10
    assert sorted(np.concatenate([places for places, _ in groups]).tolist()) == list(range(60))
    for places, vectors in groups:
        assert np.abs(vectors.numpy() - whole[places]).max() < 1e-5, "padding does not show"


def test_table_looks_up_rows(tmp_path: Path) -> None:
    np.save(
        tmp_path / "vectors.npy", np.random.default_rng(0).standard_normal((9, 2, 4), np.float32)
    )
    array = np.load(tmp_path / "vectors.npy", mmap_mode="r")
    rows = torch.tensor([[3, 0], [8, 3]])
    found = VectorTable(array, torch.device("cpu"))(rows)
    assert found.shape == (2, 2, 2, 4)
    assert np.array_equal(found.numpy(), array[[[3, 0], [8, 3]]])


def test_a_table_respects_the_cap_of_a_share_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = {
        "mem_get_info": (8_000, 10_000),  # enough, if the whole GPU were here for this process
        "get_per_process_memory_fraction": 0.25,
        "memory_reserved": 1_000,
    }
    for name, value in gpu.items():
        monkeypatch.setattr(torch.cuda, name, lambda _, value=value: value)
    array = np.zeros((200, 4), np.float32)
    assert array.nbytes == 3_200
    assert VectorTable(array, torch.device("cuda")).on_device is None


@pytest.mark.parametrize("method", ["clsr", "flow"])
def test_building_the_vectors_leaves_the_random_state_alone(
    kit_for: KitFor, triplets: Path, method: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A trial that builds the vectors starts from the same weights as trials that load them."""
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path))
    values = {
        "clsr": {"pairs": str(triplets)},
        "flow": {"corpus": str(triplets), "vector_dropout": False},
    }
    kit = kit_for(method, **values[method])
    states = []
    for _ in range(2):
        torch.manual_seed(3)
        built = kit.build()
        states.append((built.state_dict(), torch.get_rng_state()))
    (one, random_one), (two, random_two) = states
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert random_one.equal(random_two)
