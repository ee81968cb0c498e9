"""Readers: what a line becomes, and what a user reads about a malformed file."""

import io
import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.data.corpora import source
from harness.data.readers import Corpus, read_entailments, read_similar_pairs
from harness.errors import UserError


def read(path: Path) -> Corpus:
    """Read the corpus that a file's name names."""
    found = source(str(path))
    return found.read(found.paths())


def written(path: Path, content: str | bytes) -> Path:
    """Write a file, and return its path."""
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("one\ntwo", ["one", "two"]),
        ("one\n  \n two \n\n", ["one", " ", "two", " "]),
    ],
)
def test_each_line_is_a_sentence(tmp_path: Path, content: str, expected: list[str]) -> None:
    assert list(read(written(tmp_path / "a.txt", content)).columns[0]) == expected


def test_each_row_of_a_table_is_a_triplet(tmp_path: Path) -> None:
    content = 'sent0,sent1,hard_neg\na,"b, c",d\n"with ""quotes""","two\nlines",\n'
    corpus = read(written(tmp_path / "a.csv", content))
    assert [list(column) for column in corpus.columns] == [
        ["a", 'with "quotes"'],
        ["b, c", "two\nlines"],
        ["d", " "],
    ]
    assert len(corpus) == 2
    assert corpus.labels is None


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ('sent0,sent1,hard_neg\n"a\nb",c,d\ne,f\n', 4),
        ("sent0,sent1,hard_neg\na,b,c\n\nd,e,f\n", 3),
    ],
)
def test_a_malformed_table_is_named_with_its_line(tmp_path: Path, content: str, line: int) -> None:
    path = written(tmp_path / "bad.csv", content)
    with pytest.raises(UserError, match=rf"bad\.csv, line {line}: .*3"):
        read(path)


@pytest.mark.parametrize("name", ["bad.txt", "bad.csv"])
def test_a_line_that_is_not_utf8_is_named(tmp_path: Path, name: str) -> None:
    path = written(tmp_path / name, b"sent0,sent1,hard_neg\na,b,c\nd,caf\xe9,f\ng,h,i\n")
    with pytest.raises(UserError, match=rf"{name}, line 3: not UTF-8"):
        read(path)


@pytest.mark.parametrize(("name", "content"), [("a.txt", ""), ("a.csv", "sent0,sent1,hard_neg\n")])
def test_an_empty_corpus_is_refused(tmp_path: Path, name: str, content: str) -> None:
    with pytest.raises(UserError, match=f"{name} holds no"):
        read(written(tmp_path / name, content))


def write_pairs(path: Path, labels: list[int | None]) -> Path:
    """Write NLI pairs with these labels; their texts are numbered."""
    texts = [f"text {number}" for number in range(len(labels))]
    pq.write_table(pa.table({"premise": texts, "hypothesis": texts[::-1], "label": labels}), path)
    return path


def test_entailments_are_the_pairs_with_label_0(tmp_path: Path) -> None:
    files = [
        write_pairs(tmp_path / "a.parquet", [0, -1, 2, 1, 0]),
        write_pairs(tmp_path / "b.parquet", [1, 0]),
    ]
    corpus = read_entailments(files)
    assert corpus.columns == (["text 0", "text 4", "text 1"], ["text 4", "text 0", "text 0"])
    assert corpus.labels is None


def test_similar_pairs_have_a_score_of_4_or_more(tmp_path: Path) -> None:
    """A score of 4 is enough, although the paper says "higher than 4" (clsr.md, section 3)."""
    scores = ["4.000", "3.999", "5.000", "0.000", "4.001"]
    rows = [f"main-news\tMSRpar\t2012\t1\t{score}\tone {score}\ttwo {score}\n" for score in scores]
    content = "".join(rows).encode()
    with tarfile.open(tmp_path / "senteval.tar", "w") as tar:
        member = tarfile.TarInfo("downstream/STS/STSBenchmark/sts-train.csv")
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))
    first, second = read_similar_pairs([tmp_path / "senteval.tar"]).columns
    assert first == ["one 4.000", "one 5.000", "one 4.001"]
    assert second == ["two 4.000", "two 5.000", "two 4.001"]


def test_neighbours_are_of_one_document(tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", "one\ntwo\n three \n\nfour\nfive\n\n\nalone\n")
    found = source(f"neighbours:{path}")
    assert found.read(found.paths()).columns == (["one", "two", "four"], ["two", "three", "five"])
    assert not found.labelled


def test_neighbours_need_two_sentences_in_a_row(tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", "one\n\ntwo\n")
    found = source(f"neighbours:{path}")
    with pytest.raises(UserError, match=r"a\.txt holds no two sentences in a row"):
        found.read(found.paths())
