"""Files of users up to the table: suites, queries, corpora and copies of a test."""

import json
import re
from pathlib import Path

import pytest

from harness.data.corpora import SOURCES
from harness.evaluation.suites import suite
from harness.trials.store import Store
from tests.cli.conftest import Refused, Shown

pytestmark = pytest.mark.slow

SUITE = """\
from harness.evaluation.suites import Scores, SuiteCard, register

HEADINGS = {"apples": "Apples", "mean-fruit": "Mean"}
CARD = SuiteCard("fruit", HEADINGS, unit="Pieces", average="mean-fruit", decimals=1)


class Sentences:
    texts = ["a red apple", "a green pear"]


@register(CARD, {"apples": Sentences, "pears": Sentences}, list)
def count(task, data, vectors):
    return Scores({task: {"apples": 3.0, "pears": 4.0}[task]})
"""


def test_the_table_prints_its_average_as_an_average(shown: Shown, tmp_path: Path) -> None:
    path, store = tmp_path / "fruit.py", tmp_path / "store"
    path.write_text(SUITE, encoding="utf-8")
    shown("eval", "tiny-bert", "--suite", path, "--store", store)
    path.unlink()  # the table needs the store alone
    table = shown("table", "--store", store)
    head, _, row, *_ = [line for line in table.splitlines() if line and "suite" not in line]
    assert head.split()[-3:] == ["Apples", "pears", "Mean"]
    assert row.split()[-3:] == ["3.0", "4.0", "3.5"]
    assert "Pieces, mean±sample std over n seeds." in table


def test_suites_of_one_name_with_other_data_are_not_ranked_together(
    shown: Shown, refused: Refused, tmp_path: Path
) -> None:
    store = ("--store", tmp_path / "store")
    for count, pooling in ((10, "cls"), (10, "mean"), (9, "first-last")):
        path = tmp_path / str(count) / "pairs.csv"
        path.parent.mkdir(exist_ok=True)
        rows = [f"a {one},the {one}s,{at}" for at, one in enumerate(THINGS[:count])]
        path.write_text("\n".join(["sentence1,sentence2,score", *rows]), encoding="utf-8")
        shown("eval", "tiny-bert", "--pooling", pooling, "--suite", path, *store)
    tables = json.loads(shown("table", *store, "--format", "json"))
    assert [len({each["trials"][0]["key"] for each in table["records"]}) for table in tables] in (
        [1, 2], [2, 1],
    )  # fmt: skip
    assert all(re.fullmatch("suite pairs, data [0-9a-f]{8}", table["title"]) for table in tables)
    refused(["compare", "1", "2", *store], "measured on other data, both called pairs")


# A folder with queries and documents: a bootstrap over its queries


THINGS = "door key table window garden fish dog cat house street"


@pytest.fixture
def faq(tmp_path: Path) -> Path:
    """A folder with ten queries of the test."""
    folder = tmp_path / "faq"
    folder.mkdir()
    for name, head, line in (
        ("queries", "id,text", "{0},where is the {0}?"),
        ("documents", "id,text", "{0},a {0} is over there\n{0}2,there was no {0} for anybody"),
        ("relevant", "query,document,score", "{0},{0},2\n{0},{0}2,1"),
    ):
        lines = [head, *map(line.format, THINGS.split())]
        (folder / f"{name}.csv").write_text("\n".join(lines), encoding="utf-8")
    return folder


def test_two_evaluated_models_are_compared_over_queries(
    shown: Shown, faq: Path, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    for pooling in ("cls", "mean"):
        words = ("tiny-bert", "--pooling", pooling, "--suite", faq, "--store", store)
        out = shown("eval", *words)
    # The interval of one model, behind its score.
    [line] = [each.split() for each in out.splitlines() if each.split()[:1] == ["ndcg@10"]]
    assert float(line[3]) <= float(line[1]) <= float(line[5])
    records = Store(store).read().records()
    assert all(record.uncertainty.keys() == record.test.keys() for record in records)
    answer = shown("compare", 1, 2, "--store", store)
    scores = {str(each.configuration["pooling"]): each.test["ndcg@10"] for each in records}
    difference = scores["cls"] - scores["mean"]
    assert f"over test queries: {difference:+.2f}, 95 % from " in answer
    assert "(bootstrap of the test queries)" in answer
    assert "1000 resamples of the test queries, the same for all models." in answer
    verdict = answer.strip().splitlines()[-3:]
    assert any("on NDCG@10" in line for line in verdict)
    assert "pairs" not in answer
    # The same from the models alone, which nobody has evaluated.
    asked = shown("compare", "tiny-bert", "tiny-bert", "--suite", faq, "--store", tmp_path / "none")
    assert "have the same score on NDCG@10" in asked


# Scores of tests that stand in the training data


ONE_PERCENT = 6
"""Pairs, of the 600 of the test"""


def test_a_score_is_marked_from_one_percent_on(
    shown: Shown, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    test, store = suite("graded").load("graded"), tmp_path / "store"
    for copied in (ONE_PERCENT - 1, ONE_PERCENT):
        pairs = zip(test.first[:copied], test.second[:copied], strict=True)
        copies = [f"{second}\t{first.upper()}\t1" for first, second in pairs]
        rows = ["sentence1\tsentence2\tscore", *copies, "x\ty\t3"]
        (tmp_path / f"{copied}.tsv").write_text("\n".join(rows), encoding="utf-8")
        corpus = f"scored_pairs={tmp_path / f'{copied}.tsv'}"
        words = ["run", "scored_pairs", "--encoder", "tiny-bert", "--set", "suite=graded"]
        out = shown(*words, "--set", "max_steps=1", "--set", corpus, "--store", store)
        key = out.partition(", key ")[2].split()[0]
        answer = shown("show", key, "--store", store)
        assert f"  graded/pairs_together: {copied}" in answer
    monkeypatch.setenv("COLUMNS", "400")  # so that a row with two paths is one line
    table = shown("table", "--store", store)
    scores = [line.split() for line in table.splitlines() if "scored_pairs  sup" in line]
    marked = [words[0] for words in scores if "‡" in words[-1]]
    assert len(scores) == 2
    assert len(marked) == 1
    note = f"row {marked[0]}: graded {ONE_PERCENT} of 600"
    assert note in " ".join(table.split())
    for form in ("markdown", "latex"):
        assert note in shown("table", "--store", store, "--format", form), form
    shown("report", "--out", tmp_path / "report", "--store", store)
    assert note in (tmp_path / "report" / "index.html").read_text(encoding="utf-8")


def test_corpora_are_listed_and_shown(shown: Shown, tmp_path: Path) -> None:
    lines = {line.split()[0]: line for line in shown("list", "corpora").splitlines()}
    assert lines.keys() == SOURCES.keys()
    assert lines["graded-triplets"].split() == ["graded-triplets", "1,500", "triplets"]
    assert "5,749  scored pairs    CC BY-SA 4.0" in lines["stsb-train"]
    assert lines["wiki1m"].endswith("not on this machine")
    test = suite("graded").load("graded").texts
    same = test[1].upper().replace(" ", " - ")
    (tmp_path / "mine.tsv").write_text(
        f"sentence1\tsentence2\tscore\n{test[0]}\ta b\t1.5\n{same}\ta b\t5\nsomething else\t\t0\n"
    )
    text = shown("show", tmp_path / "mine.tsv")
    for line in (
        "mine.tsv: scored pairs, 3 items",
        f"  {test[0]} | a b  [1.5]",
        "text 2: 1.3 words on average, median 2",
        "1 empty, 1 repeat an earlier one",
        "  graded        1      2 of 1200       0 of 600 pairs",
        'sts12    data file "',  # there is no SentEval archive here
    ):
        assert line in text
    (tmp_path / "long.txt").write_text(f"begin{'x' * 100_000}end\nshort\n")
    text = shown("show", tmp_path / "long.txt")
    assert "  beginxx" in text
    assert "xxend\n" in text
    assert len(text) < 10_000
    for method in ("simcse", "methods/simcse"):
        assert "Its own hyperparameters" in shown("show", method), "a method is no corpus"
