"""Scores of tests that stand in the training data: the record, and the mark in every format."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.evaluation.suites import suite
from tests.cli.conftest import Shown

pytestmark = pytest.mark.slow

Harness = Callable[..., Any]
ONE_PERCENT = 6
"""Pairs, of the 600 of the test"""


def test_a_score_is_marked_from_one_percent_on(
    harness: Harness, shown: Shown, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    table = harness("table", "--store", store).out
    scores = [line.split() for line in table.splitlines() if "scored_pairs  sup" in line]
    marked = [words[0] for words in scores if "‡" in words[-1]]
    assert len(scores) == 2
    assert len(marked) == 1
    note = f"row {marked[0]}: graded {ONE_PERCENT} of 600"
    assert note in " ".join(table.split())
    for form in ("markdown", "latex"):
        assert note in shown("table", "--store", store, "--format", form), form
    assert harness("report", "--out", tmp_path / "report", "--store", store).code == 0
    assert note in (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
