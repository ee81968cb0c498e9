"""Averaged word vectors against plain_encoders.md, section 2."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from harness.errors import UserError
from harness.evaluation.correlation import spearman
from harness.evaluation.embedder import Embedder
from harness.plugin import registry
from harness.plugin.kit import Kit
from harness.plugin.resolution import resolve
from harness.trials.trial import Trial, key

KitFor = Callable[..., Kit]
LINES = ["the 1 0 0", "dog 0 2 0", "Dog 0 0 4", "dog. -1 -1 -1", ". . . 7 7 7", "café 0.5 1e-1 -2"]


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    return written(tmp_path, LINES)


def written(folder: Path, lines: list[str]) -> Path:
    path = folder / "vectors.txt"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture
def embed(kit_for: KitFor, vectors: Path) -> Callable[..., np.ndarray]:
    def embedded(*texts: str, **values: Any) -> np.ndarray:
        kit = kit_for("glove", encoder="glove", vectors=vectors, **values)
        return Embedder(kit.build(), kit)(texts)

    return embedded


@pytest.mark.parametrize(
    ("text", "expected", "values"),
    [
        ("the dog", [0.5, 1, 0], {}),
        ("the the dog", [2 / 3, 2 / 3, 0], {}),
        ("the  dog\t café ", [0.5, 2.1 / 3, -2 / 3], {}),
        ("the Dog", [0.5, 0, 2], {}),
        ("the dog.", [0, -0.5, -0.5], {}),
        ("the unheard dog", [0.5, 1, 0], {}),
        ("the DOG", [1, 0, 0], {}),
        ("nothing known", [0, 0, 0], {}),
        ("", [0, 0, 0], {}),
        (". . .", [0, 0, 0], {}),
        ("The DOG", [0.5, 1, 0], {"lowercase": True}),
        ("Café", [0.5, 0.1, -2], {"lowercase": True}),
        ("the " * 3000 + "dog " * 1000, [0.75, 0.5, 0], {}),  # long sentences are not cut
    ],
)
def test_mean_of_the_known_whitespace_tokens(
    embed: Callable[..., np.ndarray], text: str, expected: list[float], values: dict[str, Any]
) -> None:
    """Case and punctuation count, padding does not, and `. . .` of the file is no token."""
    assert embed(text, "the dog dog dog dog dog dog", "the", **values)[0] == pytest.approx(expected)
    assert embed(text, **values)[0] == pytest.approx(expected)


def test_a_sentence_without_a_known_word_has_cosine_0(embed: Callable[..., np.ndarray]) -> None:
    first, second = embed("nothing known", "the dog", "the"), embed("the dog", "the", "the")
    expected = np.array([0, 1 / np.sqrt(5), 1])
    assert spearman(first, second, expected) == pytest.approx(100)


def test_of_a_repeated_word_the_first_counts(
    embed: Callable[..., np.ndarray], vectors: Path
) -> None:
    written(vectors.parent, ["the 1 2", "the 3 4", "dog 5 6"])
    assert embed("the dog")[0] == pytest.approx([3, 4])


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["the 1 2", "dog 1"], "line 2: a word and 2 numbers"),
        (["the 1 2", "dog 1 two"], "line 2: a word and 2 numbers"),
        (["the 1 2", "dog 1 nan"], "line 2: a word and 2 numbers"),
        (["the 1 2", ""], "line 2: a word and 2 numbers"),
        (["the"], "line 1: a word and its numbers"),
        (
            ["2 3", "the 1 2 3", "dog 4 5 6"],
            r"line 1: a word and its numbers were expected \(no header\)",
        ),
        ([], "holds no word vectors"),
    ],
)
def test_a_bad_line_is_named(
    embed: Callable[..., np.ndarray], vectors: Path, lines: list[str], message: str
) -> None:
    written(vectors.parent, lines)
    with pytest.raises(UserError, match=message):
        embed("the")


def test_not_text(embed: Callable[..., np.ndarray], vectors: Path) -> None:
    vectors.write_bytes(b"the 1 2\ncaf\xe9 1 2\n")
    with pytest.raises(UserError, match="not UTF-8"):
        embed("the")


def test_without_a_file_the_user_is_told() -> None:
    with pytest.raises(UserError, match=r"glove has no word vectors: .*--set vectors=FILE"):
        key(Trial("glove", {"suite": "graded"}, 0))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"there is no file of word vectors .*none\.txt"):
        key(Trial("glove", {"vectors": str(tmp_path / "none.txt"), "suite": "graded"}, 0))


def test_no_encoder(vectors: Path) -> None:
    plugin = registry.load("glove")
    config = resolve(plugin, {"vectors": str(vectors)})
    assert config.encoder == "glove"
    assert plugin.method.models(config) == []
    assert plugin.method.stages(config) == []
    with pytest.raises(UserError, match="encoder"):
        resolve(plugin, {"encoder": "bert-base-uncased"})


def test_another_file_is_another_trial(vectors: Path) -> None:
    values = {"vectors": str(vectors), "suite": "graded"}
    before = key(Trial("glove", values, 0))
    written(vectors.parent, [*LINES, "cat 1 1 1"])
    assert key(Trial("glove", values, 0)) != before


def test_it_has_no_weights(kit_for: KitFor, vectors: Path) -> None:
    kit = kit_for("glove", encoder="glove", vectors=vectors)
    method = kit.build()
    assert list(method.parameters()) == []
    assert isinstance(kit.artefact("words")["vectors"], np.memmap)
    assert torch.equal(method.vectors(torch.tensor([0])), torch.zeros(1, 3))
