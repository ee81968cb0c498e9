"""BERT-whitening against frozen_maps.md, section 2."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from harness import device
from harness.errors import UserError
from harness.plugin import registry
from harness.plugin.corpus_vectors import corpus_vectors
from harness.plugin.kit import Kit
from tests.families import FAMILIES
from tests.methods.references import KitFor, first_texts


def build(kit: Kit) -> Any:
    return kit.build().eval()


WIDTH = 32
RANK = WIDTH - 1
"""LayerNorms with weights of 1 leave vectors whose numbers add up to 0"""


def closed_form(
    vectors: np.ndarray, dimensions: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and W of (n, WIDTH) in float64, at once; a direction without variance becomes 0."""
    vectors = vectors.astype(np.float64)
    mean = vectors.mean(axis=0)
    covariance = (vectors - mean).T @ (vectors - mean) / (len(vectors) - 1)
    directions, variances, _ = np.linalg.svd(covariance)
    assert variances[RANK] < 1e-12 < 1e-6 < variances[RANK - 1]
    return mean, (directions @ np.diag([*variances[:RANK] ** -0.5, 0]))[:, :dimensions]


def same_up_to_signs(one: np.ndarray, other: np.ndarray, tolerance: float) -> bool:
    signs = np.sign((one * other).sum(axis=0))
    return bool(np.abs(one - other * signs).max() < tolerance)


@pytest.mark.slow
@torch.no_grad()
@pytest.mark.parametrize("dimensions", [None, 5])
@FAMILIES
def test_closed_form(kit_for: KitFor, sentences: Path, dimensions: int | None) -> None:
    kit = kit_for("whitening", corpus=str(sentences), dimensions=dimensions)
    method = build(kit)
    mean, matrix = closed_form(
        corpus_vectors(kit, str(sentences), "first-last", 64)[:, 0], dimensions
    )
    np.testing.assert_allclose(method.mean.numpy(), mean, rtol=1e-9, atol=1e-12)
    assert same_up_to_signs(method.map.numpy(), matrix, 1e-6 * np.abs(matrix).max())
    batch = first_texts(kit, method, kit.config.corpus)
    expected = (method.base(batch).double().numpy() - mean) @ matrix
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    vectors = method.embed(batch)
    assert vectors.dtype == torch.float32
    assert same_up_to_signs(vectors.numpy(), expected, 1e-5)
    assert (vectors.norm(dim=1) - 1).abs().max() < 1e-6


@FAMILIES
def test_all_texts_of_the_corpus_become_white(kit_for: KitFor, triplets: Path) -> None:
    """All columns of the triplets are 60 texts. The covariance divides by n - 1."""
    kit = kit_for("whitening", corpus=str(triplets))
    vectors = (
        corpus_vectors(kit, str(triplets), "first-last", 64).reshape(60, WIDTH).astype(np.float64)
    )
    fitted = kit.artefact("whitening")
    assert (fitted["mean"].dtype, fitted["map"].dtype) == (np.float64, np.float64)
    white = (vectors - fitted["mean"]) @ fitted["map"]
    assert np.abs(white.mean(axis=0)).max() < 1e-9
    identity = np.diag([*[1] * RANK, 0])
    assert np.abs(np.cov(white.T, ddof=1) - identity).max() < 1e-6


def test_the_corpus_passes_by_in_groups(
    kit_for: KitFor, triplets: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kit = kit_for("whitening", corpus=str(triplets))
    whole = {name: np.array(value) for name, value in kit.artefact("whitening").items()}
    monkeypatch.setitem(device.TOKENS_PER_BATCH, "cpu", 15)
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path))
    grouped = kit.artefact("whitening")
    np.testing.assert_allclose(grouped["mean"], whole["mean"], atol=1e-6)
    assert same_up_to_signs(grouped["map"], whole["map"], 1e-3 * np.abs(whole["map"]).max())


def test_fewer_texts_than_dimensions(kit_for: KitFor, tmp_path: Path) -> None:
    """Directions without variance are mapped to 0 and not enlarged without limit."""
    texts = [
        "the old dog",
        "a cat",
        "the river near a house",
        "a teacher sees the child",
        "loud bird",
    ]
    (tmp_path / "few.txt").write_text("".join(f"{text}\n" for text in texts))
    kit = kit_for("whitening", corpus=str(tmp_path / "few.txt"))
    method = build(kit)
    assert int(method.map.abs().sum(dim=0).count_nonzero()) == 4
    found = method.embed(first_texts(kit, method, kit.config.corpus))
    assert found.isfinite().all()
    assert (found.norm(dim=1) - 1).abs().max() < 1e-6


def test_a_single_text_has_no_covariance(kit_for: KitFor, tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("the old dog\n")
    with pytest.raises(UserError, match=r"one\.txt holds 1 item; a corpus needs at least 2"):
        build(kit_for("whitening", corpus=str(tmp_path / "one.txt")))


def test_more_dimensions_than_there_are(kit_for: KitFor, sentences: Path) -> None:
    with pytest.raises(UserError, match="dimensions = 33 are more than the encoder's 32"):
        build(kit_for("whitening", corpus=str(sentences), dimensions=33))


def test_both_sizes_share_one_fit(kit_for: KitFor, sentences: Path) -> None:
    plugin = registry.load("whitening")
    fields = {field for artefact in plugin.method.artefacts(None) for field in artefact.fields}
    assert fields == {"corpus", "pooling", "max_length"}
    full, reduced = (
        build(kit_for("whitening", corpus=str(sentences), dimensions=size)) for size in (None, 7)
    )
    assert full.map[:, :7].equal(reduced.map)


def test_it_follows_the_data(kit_for: KitFor, sentences: Path, tmp_path: Path) -> None:
    corpus = tmp_path / "sentences.txt"
    means = []
    for text in (sentences.read_text(), "the cat sees the dog\n" * 50):
        corpus.write_text(text)
        kit = kit_for("whitening", corpus=str(corpus))
        kit.build_shared()
        means.append(np.array(kit.artefact("whitening")["mean"]))
    assert np.abs(means[0] - means[1]).max() > 1e-3
