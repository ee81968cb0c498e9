"""Corpora that are larger than memory: nothing that reads one keeps its texts."""

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from harness.data import texts, tokens
from harness.data.corpora import count_items
from harness.data.readers import Corpus, read_neighbours, read_sentences, read_triplets
from harness.data.texts import Scratch
from harness.data.tokens import load_tokenizer
from harness.errors import UserError
from tests.data.conftest import read

MIB = 2**20
FEW, MANY = 20_000, 50_000
"""Items of two corpora whose texts are 10 and 25 MB; already the first needs scratch files"""
GROWTH = """
import sys
from resource import RUSAGE_SELF, getrusage

from harness.data.corpora import count_items
from harness.data.tokens import load_tokenizer
from harness.data.tokens import tokenised
from harness.evaluation.corpus_facts import corpus_facts

encoder, *corpora = sys.argv[1:]
tokenizer = load_tokenizer(encoder, ends=False)
for corpus in corpora:
    starts = tokenised(corpus, tokenizer).read()["starts0"]
    assert list(corpus_facts(corpus))
    print(len(starts) - 1, count_items(corpus), getrusage(RUSAGE_SELF).ru_maxrss * 1024)
"""


def write_rows(path: Path, rows: int) -> int:
    """Write sentences of about 500 bytes, no two alike; returns the bytes of all of them."""
    # Long words are quick to tokenise, since they are unknown.
    sentences = [f"{number} {'x' * 495}" for number in range(rows)]
    content = "".join(json.dumps({"sentence": each}) + "\n" for each in sentences)
    path.write_bytes(gzip.compress(content.encode(), 1))
    return sum(map(len, sentences))


@pytest.mark.slow
@pytest.mark.process
def test_memory_does_not_grow_with_the_corpus(tmp_path: Path, tiny_encoder: Path) -> None:
    few, many = (tmp_path / f"{rows}.jsonl.gz" for rows in (FEW, MANY))
    write_rows(few, FEW)
    size = write_rows(many, MANY)
    command = [sys.executable, "-c", GROWTH, str(tiny_encoder), str(few), str(many)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    rows = np.array([line.split() for line in done.stdout.splitlines()], np.int64)
    assert rows[:, :2].tolist() == [[FEW, FEW], [MANY, MANY]]
    growth = rows[1, 2] - rows[0, 2]
    assert growth < size / 2, f"{growth / MIB:.0f} MiB more for texts of {size / MIB:.0f} MiB"


@pytest.fixture
def on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small corpora go to disk as large ones do."""
    monkeypatch.setattr(texts, "ITEMS_AT_ONCE", 3)
    monkeypatch.setattr(tokens, "TEXTS_AT_ONCE", 2)
    monkeypatch.setattr(texts, "IN_MEMORY", 8)


ROWS = ['"a\r\nb",c\x0cd,é', *(f"{number},\u2028,ü" for number in range(6))]
TRIPLETS = "\r\n".join(["sent0,sent1,hard_neg", *ROWS, ""])
"""Seven triplets, one of them with a line end and one with a form feed"""
RUNNING = "one\r\ntwo\n\nthree\nfo\x0cur\n \nfive\nsix\u2028\nseven\n  "
"""Sentences, empty lines, and blanks behind the last line end"""


@pytest.mark.parametrize(
    ("reader", "content"),
    [(read_sentences, RUNNING), (read_neighbours, RUNNING), (read_triplets, TRIPLETS)],
)
def test_texts_on_disk_are_those_in_memory(
    tmp_path: Path, request: pytest.FixtureRequest, reader: Callable[..., Corpus], content: str
) -> None:
    path = tmp_path / "corpus.csv"
    path.write_bytes(content.encode())
    in_memory = reader([path, path]).columns
    assert all(isinstance(column, list) for column in in_memory)
    request.getfixturevalue("on_disk")
    stored = reader([path, path]).columns
    assert not any(isinstance(column, list) for column in stored)
    assert [list(column) for column in stored] == list(in_memory)
    assert list(zip(*stored, strict=True)) == list(zip(*in_memory, strict=True))
    for column, listed in zip(stored, in_memory, strict=True):
        assert len(column) == len(listed)
        assert (column[-1], column[3], column[1:6:2]) == (listed[-1], listed[3], listed[1:6:2])
        with pytest.raises(IndexError):
            column[len(listed)]


def test_word_pieces_on_disk_are_those_in_memory(
    tiny_encoder: Path, request: pytest.FixtureRequest
) -> None:
    tokenizer = load_tokenizer(str(tiny_encoder), ends=False)
    sentences = ["a cat", "", "the dog sleeps", " ".join(["a"] * 600), "a", "b", "cat"]
    rows = [row[: tokens.LONGEST] for row in tokens.piece_ids(tokenizer, sentences)]
    request.getfixturevalue("on_disk")
    ids, starts = tokens.word_pieces(tokenizer, iter(sentences))
    assert isinstance(ids, np.memmap)
    assert (ids.dtype, starts.dtype) == (np.int32, np.int64)
    assert ids.tolist() == [piece for row in rows for piece in row]
    assert np.diff(starts, prepend=0).tolist() == [0, *map(len, rows)]


@pytest.mark.usefixtures("on_disk")
def test_a_disk_without_room_is_said_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_rows(tmp_path / "a.jsonl.gz", 7)
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "file"))
    with pytest.raises(UserError, match=r"file cannot be written .* set HARNESS_CACHE"):
        read(tmp_path / "a.jsonl.gz")


@pytest.mark.usefixtures("on_disk")
def test_nothing_is_left_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    write_rows(tmp_path / "a.jsonl.gz", 7)
    assert count_items(str(tmp_path / "a.jsonl.gz")) == 7
    kept = Scratch()
    kept.append(b"123456789")
    assert list((tmp_path / "cache").iterdir()) == []
