"""Kept embeddings: a sentence is embedded once, ever, and its vector is read back exactly."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from harness.errors import TrialFailure
from harness.evaluation.kept import KeptEmbeddings


class Lengths:
    """Embeds a text as its length and the sum of its bytes, and remembers its calls."""

    def __init__(self, width: int = 3) -> None:
        self.width = width
        self.asked: list[tuple[list[str], bool]] = []

    def __call__(self, texts: Sequence[str], *, dev: bool = False) -> np.ndarray:
        self.asked.append((list(texts), dev))
        rows = [[len(text), sum(text.encode()), *[0.5] * (self.width - 2)] for text in texts]
        return np.asarray(rows, np.float32)


TEXTS = ["a bird", "two\nlines", "", "a\tb ü", "a bird", "🙂"]


def expected(texts: list[str]) -> np.ndarray:
    """The vectors of the texts, embedded anew."""
    return Lengths()(texts)


def test_vectors_come_back_exactly_and_only_new_texts_are_embedded(tmp_path: Path) -> None:
    embed = Lengths()
    first = KeptEmbeddings(tmp_path / "kept", embed, write=True)
    assert np.array_equal(first(TEXTS), expected(TEXTS))
    assert embed.asked == [(["a bird", "two\nlines", "", "a\tb ü", "🙂"], False)]
    later = KeptEmbeddings(tmp_path / "kept", embed, write=True)
    mixed = ["new", *reversed(TEXTS), "newer", "new"]
    assert np.array_equal(later(mixed), expected(mixed))
    assert embed.asked[1:] == [(["new", "newer"], False)]
    third = KeptEmbeddings(tmp_path / "kept", embed, write=True)
    assert np.array_equal(third(mixed), expected(mixed))
    assert len(embed.asked) == 2
    assert third(mixed).dtype == np.float32


def test_the_files_are_as_the_docstring_says(tmp_path: Path) -> None:
    kept = KeptEmbeddings(tmp_path, Lengths(), write=True)
    kept(TEXTS)
    kept(["more"])
    arrays = sorted(tmp_path.glob("*.npy"))
    assert len(arrays) == 2
    assert len(list(tmp_path.iterdir())) == 6
    stored = {}
    for path in arrays:
        vectors = np.load(path, mmap_mode="r")
        assert isinstance(vectors, np.memmap)
        assert vectors.dtype == np.float32
        texts = pq.read_table(path.with_suffix(".parquet"))["text"].to_pylist()
        stored |= dict(zip(texts, vectors, strict=True))
    assert set(stored) == {*TEXTS, "more"}
    for text, vector in stored.items():
        assert np.array_equal(vector, expected([text])[0])


def test_kept_vectors_are_read_without_writing(tmp_path: Path) -> None:
    KeptEmbeddings(tmp_path, Lengths(), write=True)(TEXTS)
    before = sorted(tmp_path.iterdir())
    embed = Lengths()
    assert np.array_equal(
        KeptEmbeddings(tmp_path, embed, write=False)([*TEXTS, "new"]), expected([*TEXTS, "new"])
    )
    assert embed.asked == [(["new"], False)]
    assert sorted(tmp_path.iterdir()) == before


def test_vectors_of_another_width_are_refused(tmp_path: Path) -> None:
    KeptEmbeddings(tmp_path, Lengths(3), write=True)(TEXTS)
    before = sorted(tmp_path.iterdir())
    other = KeptEmbeddings(tmp_path, Lengths(4), write=True)
    with pytest.raises(TrialFailure, match=f"3 and 4; delete {tmp_path}"):
        other(["new"])
    assert sorted(tmp_path.iterdir()) == before


def test_two_processes_may_keep_the_same_sentences(tmp_path: Path) -> None:
    one, two = (KeptEmbeddings(tmp_path, Lengths(), write=True) for _ in range(2))
    one(TEXTS)
    two(TEXTS)
    assert len(list(tmp_path.glob("*.npy"))) == 2
    embed = Lengths()
    assert np.array_equal(KeptEmbeddings(tmp_path, embed, write=True)(TEXTS), expected(TEXTS))
    assert embed.asked == []


def test_a_pair_without_its_manifest_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "0.npy").write_bytes(b"half")
    (tmp_path / "0.parquet").write_bytes(b"half")
    embed = Lengths()
    assert np.array_equal(KeptEmbeddings(tmp_path, embed, write=True)(TEXTS), expected(TEXTS))
    assert len(embed.asked) == 1


@pytest.mark.parametrize("end", [".npy", ".parquet", ".json"])
@pytest.mark.parametrize("size", [None, 0, 5, 100])
def test_a_damaged_file_is_named_and_its_sentences_are_embedded_again(
    size: int | None, end: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    KeptEmbeddings(tmp_path, Lengths(), write=True)(TEXTS)
    [damaged] = tmp_path.glob(f"*{end}")
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content[:size])
    again = KeptEmbeddings(tmp_path, Lengths(), write=True)
    [line] = caplog.messages
    assert str(damaged) in line
    assert list(tmp_path.iterdir()) == [], "what cannot be read is removed"
    assert np.array_equal(again(TEXTS), expected(TEXTS))
    embed = Lengths()
    assert np.array_equal(KeptEmbeddings(tmp_path, embed, write=True)(TEXTS), expected(TEXTS))
    assert embed.asked == []
    assert len(caplog.messages) == 1
