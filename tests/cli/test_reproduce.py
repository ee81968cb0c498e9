"""`harness reproduce`: the sweep, the table and the verdict in one."""

import csv
import io
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.trials.store import Store
from tests.cli.conftest import SentEval

SMALL = (
    "--encoder", "tiny-bert", "--set", "sentences=graded-sentences", "--set", "max_steps=2",
    "--set", "batch_size=8", "--set", "precision=fp32", "--seeds", "0,1",
)  # fmt: skip


@pytest.fixture
def reproduce(harness: Any, senteval: SentEval, tmp_path: Path) -> Callable[..., Any]:
    """reproduce(argument, ..., paper=..., table=...): on the tiny encoder and a small archive."""
    senteval()

    def call(*arguments: str, paper: str = "dcpcse", table: int = 2) -> Any:
        named = (paper, "--table", table, "--store", tmp_path / "store")
        return harness("reproduce", "--local", *named, *SMALL, *arguments)

    return call


def test_a_dry_run_runs_nothing(reproduce: Callable[..., Any], tmp_path: Path) -> None:
    answer = reproduce("--dry-run")
    assert answer.code == 0, answer.err
    assert "4 trials to run" in answer.out
    assert not (tmp_path / "store").exists()


@pytest.mark.slow
def test_sweep_table_and_verdict(
    reproduce: Callable[..., Any], harness: Any, tmp_path: Path
) -> None:
    first = reproduce()
    assert first.code == 0, first.err
    assert "Table 2: effect of the auxiliary masked-LM task" in first.out
    assert "Verdict on Table 2" in first.out
    verdict = first.out[first.out.index("Verdict on Table 2") :]
    assert verdict.count(" on tiny-bert\n") == 4  # where the paper has two encoders
    differs = "encoder tiny-bert (paper: bert-base-uncased); batch_size 8 (paper: 256);"
    assert differs in " ".join(first.out.split())  # a note breaks between words
    second = reproduce()
    assert second.code == 0, second.err
    verdicts = [text[text.index("Verdict on Table 2") :] for text in (first.out, second.out)]
    assert verdicts[0] == verdicts[1]
    # A better trial with other values is in neither part of the answer.
    store = Store(tmp_path / "store")
    trial = next(each for each in store.read().records() if each.method == "dcpcse")
    other = {"max_steps": 999}
    scores = {"dev": {"stsb-dev": 99.0}, "test": dict.fromkeys(trial.test, 98.76)}
    changed = replace(trial, key="f" * 32, configuration={**trial.configuration, **other}, **scores)
    store.write(changed)
    third = reproduce()
    assert third.code == 0, third.err
    assert "98.76" not in third.out
    shown = harness("table", "--paper", "dcpcse", "--table", "2", "--encoder", "tiny-bert",
                    "--store", store.folder)  # fmt: skip
    assert "98.76" in shown.out


@pytest.mark.slow
def test_examples_are_those_of_the_kept_models(
    reproduce: Callable[..., Any], harness: Any, tmp_path: Path
) -> None:
    answer = reproduce(paper="diffcse", table=9)
    assert answer.code == 0, answer.err
    assert "The sentences of STS-B test nearest to the query" in answer.out
    assert "Verdict" not in answer.out
    store = ("--store", tmp_path / "store")
    rows = harness("table", "--paper", "diffcse", "--table", "9", "--encoder", "tiny-bert",
                   "--format", "csv", *store)  # fmt: skip
    found = list(csv.DictReader(io.StringIO(rows.out)))
    ours = [row["ours"] for row in found if row["label"] == "SimCSE-BERT base"]
    assert len(ours) == 9
    assert all(ours)
    # The model with the best dev score answers.
    trials = Store(tmp_path / "store").read().records()
    best = max(
        (each for each in trials if each.method == "simcse"), key=lambda each: each.dev["stsb-dev"]
    )
    asked = harness("retrieve", best.key, "you can do it, too.", *store)
    for rank, sentence in enumerate(ours[:3], start=1):
        assert re.search(rf"  {rank}  [\d.-]+  {re.escape(sentence)}\n", asked.out)
