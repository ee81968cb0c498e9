"""A suite of a user's own from its file to the table: its card goes with its records."""

from pathlib import Path

import pytest

from tests.cli.conftest import Shown

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
