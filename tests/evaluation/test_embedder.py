"""The embedder: each distinct sentence once, in any order and batches, without dropout."""

import copy
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from harness import device
from harness.data.batching import TextBatch
from harness.data.sts_pairs import LOADERS
from harness.evaluation.correlation import spearman
from harness.evaluation.embedder import Embedder, packed_linears
from harness.plugin.kit import Kit
from tests.kits import KitFor

TEXTS = [
    "the cat sees the dog", "a red bird", "the cat sees the dog", "the", "a red bird",
    "the old farmer paints",
] * 3  # fmt: skip


class Watched:
    """An embedder that remembers the batches which its method embeds."""

    def __init__(self, kit: Kit) -> None:
        self.method = kit.build()
        self.batches: list[TextBatch] = []
        self.training: list[bool] = []
        embed = self.method.embed

        def remember(batch: TextBatch) -> torch.Tensor:
            self.batches.append(batch)
            self.training.append(self.method.training)
            return embed(batch)

        self.method.embed = remember  # type: ignore[method-assign]
        self.embedder = Embedder(self.method, kit)


def test_each_distinct_sentence_is_embedded_once(kit_for: KitFor) -> None:
    watched = Watched(kit_for("pooling", pooling="mean"))
    vectors = watched.embedder(TEXTS)
    assert sum(len(batch.input_ids) for batch in watched.batches) == 4
    assert vectors.shape == (18, 32)
    assert vectors.dtype == np.float32
    for vector, text in zip(vectors, TEXTS, strict=True):
        assert np.array_equal(vector, vectors[TEXTS.index(text)])


@pytest.mark.slow
def test_order_and_batches_do_not_matter(kit_for: KitFor, monkeypatch: pytest.MonkeyPatch) -> None:
    kit = kit_for("pooling", encoder="tiny-bert", pooling="mean")
    pairs = LOADERS["graded-dev"]()
    whole = Embedder(kit.build(), kit)
    order = np.random.default_rng(0).permutation(len(pairs))
    shuffled = [pairs.second[index] for index in order] + [pairs.first[index] for index in order]
    expected = dict(zip(pairs.texts, whole(pairs.texts), strict=True))
    score = spearman(whole(pairs.first), whole(pairs.second), pairs.gold)
    for budget in (4096, 100, 1):
        monkeypatch.setitem(device.TOKENS_PER_BATCH, "cpu", budget)
        watched = Watched(kit)
        found = watched.embedder(shuffled)
        assert np.abs(found - np.stack([expected[text] for text in shuffled])).max() < 1e-5
        second, first = found[: len(order)], found[len(order) :]
        assert spearman(first, second, pairs.gold[order]) == pytest.approx(score, abs=1e-3)
        assert max(batch.input_ids.numel() for batch in watched.batches) <= max(budget, 64)
    # With a budget of one token, every batch has one sentence.
    assert len(watched.batches) == len(set(pairs.texts))


@pytest.mark.parametrize(("mebibytes", "tokens"), [(81559, 65536), (8192, 8192)])
def test_a_batch_is_as_large_as_the_memory_of_the_gpu_allows(
    monkeypatch: pytest.MonkeyPatch, mebibytes: int, tokens: int
) -> None:
    gpu = SimpleNamespace(total_memory=mebibytes * 2**20)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: gpu)
    lengths = np.full(100_000, 16)
    groups = device.token_groups(lengths, torch.device("cuda"))
    assert groups[0] == slice(0, tokens // 16)
    assert [group.start for group in groups[1:]] == [group.stop for group in groups[:-1]]
    assert groups[-1].stop >= len(lengths)


def test_vectors_are_those_of_the_sentence_alone(kit_for: KitFor) -> None:
    watched = Watched(kit_for("pooling", pooling="cls"))
    texts = ["a red bird", "the old farmer paints the house", "the"]
    found = watched.embedder(texts)
    tokenizer, model = watched.embedder.kit.tokenizer, watched.method.encoder.model.eval()
    for vector, text in zip(found, texts, strict=True):
        state = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0, 0]
        assert np.abs(vector - state.detach().numpy()).max() < 1e-5


def test_sentences_are_cut_only_where_the_positions_end(kit_for: KitFor) -> None:
    """The training length of 32 does not cut test sentences; the tiny model has 40 positions."""
    watched = Watched(kit_for("d2cse", prompt_length=3))
    watched.embedder(["cat " * 34, "cat " * 100])
    lengths = sorted(
        length for batch in watched.batches for length in batch.attention_mask.sum(dim=1).tolist()
    )
    assert lengths == [36, 37]


def test_dropout_is_off_and_training_goes_on_afterwards(kit_for: KitFor) -> None:
    """Vectors change with changed weights: word pieces may be kept, vectors may not."""
    watched = Watched(kit_for("simcse"))
    watched.method.train()
    before = watched.embedder(TEXTS)
    assert np.array_equal(watched.embedder(TEXTS), before)
    assert watched.training == [False] * len(watched.training)
    assert watched.method.training
    watched.method.eval()
    with torch.no_grad():
        watched.method.encoder.model.encoder.layer[1].output.dense.weight.mul_(2)
    assert np.abs(watched.embedder(TEXTS) - before).max() > 0.01
    assert not watched.method.training


# Packed linear layers: they give what plain layers give, and leave nothing behind.


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(7, 24), (3, 5, 24), (2000, 24)])
def test_packed_layers_equal_plain_ones(bias: bool, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(24, 40, bias=bias), nn.ReLU(), nn.Linear(40, 3))
    packed, states = copy.deepcopy(plain), torch.randn(shape)
    with torch.inference_mode(), packed_linears(packed):
        outputs = packed(states)
    expected = copy.deepcopy(plain).double()(states.double()).float()
    torch.testing.assert_close(outputs, expected, rtol=1e-5, atol=1e-5)
    assert outputs.shape == (*shape[:-1], 3)


def test_bf16_works_on_every_processor() -> None:
    """The plain layers compute bf16 where oneDNN has none."""
    layer, states = nn.Linear(24, 40), torch.ones(3, 24)
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16), packed_linears(layer):
        found = layer(states)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), layer(states), rtol=0.02, atol=0.02)


def test_layers_train_again_even_after_an_error_and_changed_weights_are_packed_anew() -> None:
    layer, states = nn.Linear(4, 2, bias=False), torch.ones(1, 4)
    for value in (1.0, 2.0):
        with torch.no_grad():
            layer.weight.fill_(value)
        with torch.inference_mode(), packed_linears(layer):
            assert layer(states).tolist() == [[4 * value, 4 * value]]
    with pytest.raises(RuntimeError, match="planted"), packed_linears(layer):
        raise RuntimeError("planted")
    layer(states).sum().backward()
    assert layer.weight.grad is not None
