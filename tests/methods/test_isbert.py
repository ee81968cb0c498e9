"""IS-BERT against isbert.md."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from harness.data.batching import TextBatch
from harness.training.loop import Trainer
from methods.isbert.method import local_global_loss
from tests.families import FAMILIES
from tests.methods.references import KitFor, first_texts


def local_vectors(method: Any, texts: TextBatch) -> list[np.ndarray]:
    """The vectors of the tokens of each row alone, window by window, in float64."""
    vectors = []
    for ids, length in zip(texts.input_ids, texts.attention_mask.sum(1).tolist(), strict=True):
        states = method.encoder.model(input_ids=ids[None, :length]).last_hidden_state[0]
        padded = np.pad(states.detach().double().numpy(), ((2, 2), (0, 0)))
        columns = []
        for window, convolution in zip((1, 3, 5), method.convolutions, strict=True):
            weight = convolution.weight.detach().double().numpy()  # (filters, H, window)
            bias = convolution.bias.detach().double().numpy()
            start = 2 - window // 2
            columns.append([
                np.einsum("wh,fhw->f", padded[at + start : at + start + window], weight) + bias
                for at in range(length)
            ])  # fmt: skip
        vectors.append(np.concatenate([np.maximum(part, 0) for part in columns], axis=1))
    return vectors


@FAMILIES
def test_loss_and_embedding(kit_for: KitFor, sentences: Any) -> None:
    kit = kit_for("isbert", sentences=str(sentences), filters=6)
    torch.manual_seed(0)
    method = kit.build().eval()
    texts = first_texts(kit, method, kit.config.sentences, size=4)
    assert (texts.attention_mask == 0).any(), "padding must be there to be left out"
    local = local_vectors(method, texts)
    whole = np.array([part.mean(axis=0) for part in local])
    scores = [part @ whole.T for part in local]
    own = [-math.log1p(math.exp(-z)) for row, each in enumerate(scores) for z in each[:, row]]
    others = [
        math.log1p(math.exp(z))
        for row, each in enumerate(scores)
        for z in np.delete(each, row, axis=1).ravel()
    ]
    expected = np.mean(others) - np.mean(own) - 2 * math.log(2)
    (stage,) = kit.declared.stages
    found = method.losses({"information": texts}, stage)["information"]
    assert found.item() == pytest.approx(expected, rel=1e-3, abs=1e-5)
    assert np.abs(method.embed(texts).detach().numpy() - whole).max() < 1e-5


def test_pairs_are_two_sentences_each(kit_for: KitFor, pairs: Any) -> None:
    kit = kit_for("isbert", sentences=str(pairs), max_steps=2)
    method = kit.build()
    texts = first_texts(kit, method, kit.config.sentences, size=4)
    assert len(method.embed(texts)) == 8
    assert Trainer(method, kit, 0, lambda: 1.0, lambda _: None).run().steps == 2


def test_one_sentence_has_no_others() -> None:
    local = torch.ones(1, 2, 3, dtype=torch.float64)
    found = local_global_loss(local, torch.ones(1, 2), local[:, 0])
    assert found.item() == pytest.approx(math.log1p(math.exp(-3)) - math.log(2))


def test_formula_of_the_loss() -> None:
    torch.manual_seed(0)
    local = torch.randn(3, 4, 5, dtype=torch.float64)
    whole = torch.randn(3, 5, dtype=torch.float64)
    lengths = [4, 2, 3]
    mask = torch.tensor([[int(at < length) for at in range(4)] for length in lengths])
    own, others = [], []
    for row, length in enumerate(lengths):
        for token in range(length):
            for sentence in range(3):
                score = float(local[row, token] @ whole[sentence])
                if row == sentence:
                    own.append(math.log(2) - math.log1p(math.exp(-score)))
                else:
                    others.append(math.log1p(math.exp(score)) - math.log(2))
    expected = sum(others) / len(others) - sum(own) / len(own)
    assert local_global_loss(local, mask, whole).item() == pytest.approx(expected, rel=1e-12)
    local[1, 2:] = 99.0  # padding
    assert local_global_loss(local, mask, whole).item() == pytest.approx(expected, rel=1e-12)
