"""`harness compare` on a folder with queries and documents: a bootstrap over its queries."""

from pathlib import Path

import pytest

from harness.trials.store import Store
from tests.cli.conftest import Shown

pytestmark = pytest.mark.slow

THINGS = ("door", "key", "table", "window", "garden", "fish", "dog", "cat", "house", "street")


@pytest.fixture
def faq(tmp_path: Path) -> Path:
    """A folder with ten queries of the test."""
    folder = tmp_path / "faq"
    folder.mkdir()
    files = {
        "queries": ["id,text", *(f"{n},where is the {n}?" for n in THINGS)],
        "documents": [
            "id,text",
            *(f"{n},a {n} is over there" for n in THINGS),
            *(f"{n}2,there was no {n} for anybody" for n in THINGS),
        ],
        "relevant": ["query,document,score", *(f"{n},{n},2\n{n},{n}2,1" for n in THINGS)],
    }
    for name, lines in files.items():
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
