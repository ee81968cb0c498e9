"""SBERT against sbert.md."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from harness.data.batching import TextBatch
from harness.data.corpora import source
from harness.errors import UserError
from harness.plugin import registry
from harness.plugin.kit import Kit
from harness.plugin.resolution import resolve
from tests.families import FAMILIES
from tests.methods import references
from tests.methods.references import KitFor, first_texts, nli_loss

build = partial(references.build, enlarged="classifier", std=1.0)


@pytest.fixture
def kit(kit_for: KitFor, pairs: Path) -> Kit:
    return kit_for("sbert", pairs=str(pairs))


def means(method: Any, texts: TextBatch) -> np.ndarray:
    """The mean of the last states of each row alone, special tokens included, in float64."""
    rows = []
    for ids, length in zip(texts.input_ids, texts.attention_mask.sum(dim=1).tolist(), strict=True):
        states = method.encoder.model(input_ids=ids[None, :length]).last_hidden_state[0]
        rows.append(states.detach().double().numpy().mean(axis=0))
    return np.array(rows)


@FAMILIES
def test_softmax_over_u_v_and_their_difference(kit: Kit) -> None:
    method = build(kit).eval()
    texts = first_texts(kit, method, kit.config.pairs)
    assert texts.labels is not None
    assert (texts.attention_mask == 0).any(), "padding must be there to be left out"
    vectors = means(method, texts)
    pairs = list(zip(vectors[0::2], vectors[1::2], texts.labels.tolist(), strict=True))
    expected = nli_loss(method.classifier, pairs)
    (stage,) = method.stages(kit.config)
    found = method.losses({"pairs": texts}, stage)["classification"]
    assert found.item() == pytest.approx(expected, rel=1e-4)


@FAMILIES
def test_embedding_is_the_mean_without_the_classifier(kit: Kit) -> None:
    method = build(kit).eval()
    texts = first_texts(kit, method, kit.config.pairs)
    assert np.abs(method.embed(texts).detach().numpy() - means(method, texts)).max() < 1e-5
    assert torch.equal(method.embed_dev(texts), method.embed(texts))


def test_labels_are_those_of_nli_pairs(kit: Kit, pairs: Path) -> None:
    """There are three labels with the numbers of the corpus, and each pair keeps its own."""
    method = build(kit)
    texts = first_texts(kit, method, kit.config.pairs)
    assert texts.labels is not None
    corpus = source(str(pairs)).read([pairs])
    assert corpus.labels is not None
    assert texts.labels.tolist() == corpus.labels[texts.items.numpy()].tolist()
    assert set(corpus.labels.tolist()) == {0, 1, 2}
    assert method.classifier.linear.out_features == 3


def test_embedded_pairs_are_entailed_neutral_and_contradicted() -> None:
    pairs, triplets = (source(name) for name in ("graded-pairs", "graded-triplets"))
    read, expected = pairs.read(pairs.paths()), triplets.read(triplets.paths())
    count = len(expected)
    assert len(read) == 3 * count
    assert read.labels is not None
    for label, hypotheses in ((0, expected.columns[1]), (2, expected.columns[2])):
        chosen = np.flatnonzero(read.labels == label)
        assert [read.columns[0][item] for item in chosen] == expected.columns[0]
        assert [read.columns[1][item] for item in chosen] == hypotheses
    neutral = np.flatnonzero(read.labels == 1)
    assert all(read.columns[0][item] != read.columns[1][item] for item in neutral)


def test_what_is_declared() -> None:
    """All NLI pairs once, and not the 10,000 pairs of the present-day example script."""
    plugin = registry.load("sbert")
    config = resolve(plugin, {})
    (stage,) = plugin.method.stages(config)
    assert (stage.optimisation.optimiser, stage.optimisation.schedule) == (
        "adamw-uncorrected", "linear",
    )  # fmt: skip
    assert stage.losses == {"classification": 1}
    assert config.pairs == "nli-pairs"
    assert source("nli-pairs").items == 942_069


@pytest.mark.parametrize("corpus", ["sentences", "triplets"])
def test_a_corpus_without_pairs_is_refused(
    kit_for: KitFor, request: pytest.FixtureRequest, corpus: str
) -> None:
    kit = kit_for("sbert", pairs=str(request.getfixturevalue(corpus)))
    method = build(kit)
    with pytest.raises(UserError, match="premise, hypothesis and label"):
        method.losses(
            {"pairs": first_texts(kit, method, kit.config.pairs)}, method.stages(kit.config)[0]
        )
