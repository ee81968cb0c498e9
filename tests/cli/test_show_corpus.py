"""`harness list corpora` and `harness show CORPUS`."""

from pathlib import Path

import pytest

from harness.data.corpora import SOURCES
from harness.data.readers import Corpus
from harness.evaluation.overlap import overlaps
from harness.evaluation.suites import suite
from tests.cli.conftest import Harness


def test_corpora_are_listed_with_size_and_shape(harness: Harness) -> None:
    lines = {line.split()[0]: line for line in harness("list", "corpora").out.splitlines()}
    assert lines.keys() == SOURCES.keys()
    assert lines["graded-triplets"].split() == ["graded-triplets", "1,500", "triplets"]
    assert "5,749  scored pairs    CC BY-SA 4.0" in lines["stsb-train"]
    assert lines["wiki1m"].endswith("not on this machine")


def test_a_corpus_is_shown(harness: Harness, tmp_path: Path) -> None:
    test = suite("graded").load("graded").texts
    same = test[1].upper().replace(" ", " - ")
    (tmp_path / "mine.tsv").write_text(
        f"sentence1\tsentence2\tscore\n{test[0]}\ta b\t1.5\n{same}\ta b\t5\nsomething else\t\t0\n"
    )
    shown = harness("show", str(tmp_path / "mine.tsv")).out
    assert "mine.tsv: scored pairs, 3 items" in shown
    assert f"  {test[0]} | a b  [1.5]" in shown
    assert "text 2: 1.3 words on average, median 2" in shown
    assert "1 empty, 1 repeat an earlier one" in shown
    assert "  graded        1      2 of 1200       0 of 600 pairs" in shown
    assert 'sts12    data file "' in shown, "there is no SentEval archive here"


@pytest.mark.slow
def test_overlaps_count_every_column_and_distinct_sentences() -> None:
    test = suite("graded").load("graded").texts
    corpus = Corpus(([test[0], "x"], [test[5], test[0]]))
    found = {each.task: each for each in overlaps(corpus)}["graded"].figures
    assert (found["exact"], found["normalised"], found["sentences"]) == (2, 2, len(set(test)))
    assert (found["pairs"], found["pairs_together"]) == (len(test) // 2, 0)


def test_a_method_is_no_corpus(harness: Harness) -> None:
    for name in ("simcse", "methods/simcse"):
        assert "Its own hyperparameters" in harness("show", name).out
