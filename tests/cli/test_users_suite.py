"""A suite of a user's own from its file to the table: its card goes with its records."""

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

SUITE = """\
from harness.evaluation.suites import Scores, SuiteCard, register

CARD = SuiteCard(
    "fruit",
    {"apples": "Apples", "mean-fruit": "Mean"},
    unit="Pieces",
    average="mean-fruit",
    decimals=1,
)


class Sentences:
    texts = ["a red apple", "a green pear"]


@register(CARD, {"apples": Sentences, "pears": Sentences}, list)
def count(task, data, vectors):
    return Scores({task: {"apples": 3.0, "pears": 4.0}[task]})
"""


def test_the_table_prints_its_average_as_an_average(harness: Any, tmp_path: Path) -> None:
    path, store = tmp_path / "fruit.py", tmp_path / "store"
    path.write_text(SUITE, encoding="utf-8")
    answer = harness("eval", "tiny-bert", "--suite", path, "--store", store)
    assert answer.code == 0, answer.err
    path.unlink()  # the table needs the store alone
    table = harness("table", "--store", store)
    head, _, row, *_ = [line for line in table.out.splitlines() if line and "suite" not in line]
    assert head.split()[-3:] == ["Apples", "pears", "Mean"]
    assert row.split()[-3:] == ["3.0", "4.0", "3.5"]
    assert "Pieces, mean±sample std over n seeds." in table.out
