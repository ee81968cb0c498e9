"""Readers: what a row becomes. The refusals of files are in test_rows.py and test_tables.py."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.data.corpora import source
from harness.data.readers import read_entailments, read_similar_pairs
from harness.errors import UserError
from tests.data.conftest import read


def test_each_row_of_a_table_is_a_triplet(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('sent0,sent1,hard_neg\na,"b, c",d\n"with ""quotes""","two\nlines",\n')
    corpus = read(path)
    columns = [["a", 'with "quotes"'], ["b, c", "two\nlines"], ["d", " "]]
    assert [list(column) for column in corpus.columns] == columns
    assert (len(corpus), corpus.labels) == (2, None)


def test_entailments_are_the_pairs_with_label_0(tmp_path: Path) -> None:
    files = []
    for name, labels in (("a", [0, -1, 2, 1, 0]), ("b", [1, 0])):
        texts = [f"text {number}" for number in range(len(labels))]
        columns = {"premise": texts, "hypothesis": texts[::-1], "label": labels}
        files.append(tmp_path / f"{name}.parquet")
        pq.write_table(pa.table(columns), files[-1])
    corpus = read_entailments(files)
    assert corpus.columns == (["text 0", "text 4", "text 1"], ["text 4", "text 0", "text 0"])
    assert corpus.labels is None


def test_similar_pairs_have_a_score_of_4_or_more(make_archive: Callable[..., Path]) -> None:
    """A score of 4 is enough, although the paper says "higher than 4" (clsr.md, section 3)."""
    scores = ["4.000", "3.999", "5.000", "0.000", "4.001"]
    rows = [f"main-news\tMSRpar\t2012\t1\t{score}\tone {score}\ttwo {score}\n" for score in scores]
    path = make_archive({"downstream/STS/STSBenchmark/sts-train.csv": "".join(rows)})
    first, second = read_similar_pairs([path]).columns
    assert first == ["one 4.000", "one 5.000", "one 4.001"]
    assert second == ["two 4.000", "two 5.000", "two 4.001"]


def test_neighbours_are_of_one_document(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n three \n\nfour\nfive\n\n\nalone\n")
    name = f"neighbours:{tmp_path / 'a.txt'}"
    assert read(name).columns == (["one", "two", "four"], ["two", "three", "five"])
    assert not source(name).labelled
    (tmp_path / "a.txt").write_text("one\n\ntwo\n")
    with pytest.raises(UserError, match=r"a\.txt holds no two sentences in a row"):
        read(name)
