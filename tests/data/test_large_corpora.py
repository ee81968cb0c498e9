"""Corpora that are larger than memory: nothing that reads one keeps its texts."""

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from harness.data import tokens
from harness.data.corpora import count_items
from harness.data.readers import Corpus, read_neighbours, read_sentences, read_triplets
from harness.data.texts import IN_MEMORY, ITEMS_AT_ONCE, Scratch
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


HEADER, LONG = "sent0,sent1,hard_neg", "x" * 2000
ROWS = ['"a\r\nb",c\x0cd,é', f"{LONG},y,z", *(f"{number},\u2028,ü" for number in range(5))]
"""Seven triplets, one of them with a line end and one with a form feed"""
RUNNING = f"\none\r\ntwo\n\nthree\nfo\x0cur\n \n{LONG}\nsix\u2028\nseven\n"
"""Sentences and empty lines"""


def running(times: int) -> str:
    return RUNNING * times + "  "  # blanks behind the last line end


def triplets(times: int) -> str:
    return "\r\n".join([HEADER, *ROWS * times, ""])


@pytest.mark.parametrize(
    ("reader", "content"),
    [(read_sentences, running), (read_neighbours, running), (read_triplets, triplets)],
)
def test_texts_on_disk_are_those_in_memory(
    tmp_path: Path, reader: Callable[..., Corpus], content: Callable[[int], str]
) -> None:
    path = tmp_path / "corpus.csv"
    path.write_bytes(content(1).encode())
    in_memory = reader([path, path]).columns
    assert all(isinstance(column, list) for column in in_memory)
    times = 2 * ITEMS_AT_ONCE // len(in_memory[0]) + 1
    path.write_bytes(content(times).encode())
    stored, repeated = reader([path, path]).columns, [column * times for column in in_memory]
    assert not any(isinstance(column, list) for column in stored)
    side_by_side = zip(zip(*stored, strict=True), zip(*repeated, strict=True), strict=True)
    assert all(one == other for one, other in side_by_side)
    edge = slice(ITEMS_AT_ONCE - 3, ITEMS_AT_ONCE + 4, 2)
    for column, listed in zip(stored, repeated, strict=True):
        assert len(column) == len(listed)
        assert (column[-1], column[3], column[edge]) == (listed[-1], listed[3], listed[edge])
        with pytest.raises(IndexError):
            column[len(listed)]


@pytest.mark.slow
def test_word_pieces_on_disk_are_those_in_memory(tiny_encoder: Path) -> None:
    tokenizer = load_tokenizer(str(tiny_encoder), ends=False)
    sentences = ["a cat", "", "the dog sleeps", " ".join(["a"] * 600), "a", "b", "cat"]
    rows = [row[: tokens.LONGEST] for row in tokens.piece_ids(tokenizer, sentences)]
    times = IN_MEMORY // (4 * sum(map(len, rows))) + 1
    assert times * len(sentences) > 2 * tokens.TEXTS_AT_ONCE
    for count, kind in ((1, np.ndarray), (times, np.memmap)):
        ids, starts = tokens.word_pieces(tokenizer, iter(sentences * count))
        assert type(ids) is kind
        assert (ids.dtype, starts.dtype) == (np.int32, np.int64)
        assert np.array_equal(ids, np.tile(np.concatenate(rows), count))
        assert np.array_equal(np.diff(starts), np.tile([*map(len, rows)], count))
        assert starts[0] == 0


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A corpus that goes to disk."""
    path = tmp_path / "large.txt"
    path.write_text("".join(f"{number}\n" for number in range(ITEMS_AT_ONCE)))
    return path


def test_a_disk_without_room_is_said_in_a_sentence(
    large: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "file"))
    with pytest.raises(UserError, match=r"file cannot be written .* set HARNESS_CACHE"):
        read(large)


def test_nothing_is_left_in_the_cache(
    large: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    assert count_items(str(large)) == ITEMS_AT_ONCE
    kept = Scratch()
    kept.append(b"9" * (IN_MEMORY + 1))
    assert list((tmp_path / "cache").iterdir()) == []
