"""Groups of comparable trials, and their means."""

from typing import Any

import numpy as np
import pytest

from harness.evaluation.catalogue import CARDS
from harness.plugin import registry
from harness.report.coverage import shares
from harness.report.paper_cells import Comparer
from harness.report.papers import load_paper
from harness.report.quantities import PAPER_COLUMNS
from tests.report.conftest import MadeStore


@pytest.mark.parametrize(
    "different",
    [
        {"method": "d2cse"}, {"setting": "sup"}, {"encoder": "roberta-base"},
        {"configuration": {"learning_rate": 1e-5}}, {"source_digest": "source-2"},
        {"data_digest": "data-2"}, {"model_digest": "model-2"}, {"precision": "bf16"},
        {"protocol": 2},
    ],
    ids=lambda different: next(iter(different)),
)  # fmt: skip
def test_what_is_not_comparable_is_never_averaged(
    store: MadeStore, different: dict[str, Any]
) -> None:
    store.trial(score=70.0)
    store.trial(score=80.0, **different)
    assert sorted(group.test["avg"].mean for group in store.groups()) == [70.0, 80.0]


def test_no_average_over_other_tasks(store: MadeStore) -> None:
    store.trial()
    store.trial(test=dict.fromkeys((*CARDS["sts"].tasks(())[:-1], "avg"), 75.0))
    (group,) = store.groups()
    assert [part.tasks for part in group.parts] == [CARDS["sts"].tasks(())]
    tested = set(CARDS["sts"].tasks(())) - {"sickr"}
    assert set(group.test) == tested | {"avg-without-sickr"}
    assert {cell.n for cell in group.test.values()} == {2}


def test_a_dev_score_that_is_no_number_never_wins(store: MadeStore) -> None:
    store.trial(dev={"stsb-dev": float("nan")})
    (group,) = store.groups()
    assert group.dev_mean == -np.inf


# What share of a published table or figure a store has.

FIGURES = {
    "diffaug": ["Figure 3", "Figure 4", "Figure 5"], "dcpcse": ["Figure 2"],
    "diffcse": ["Figure 2"], "d2cse": ["Figure 2"],
}  # fmt: skip


def shares_in(store: MadeStore, paper: str) -> dict[str, str]:
    """Table or figure -> its share, as text."""
    comparer = Comparer(store.read(PAPER_COLUMNS).table)
    return {each.name: str(each) for each in shares(load_paper(paper), comparer, registry.names())}


@pytest.mark.parametrize("paper", FIGURES)
def test_every_table_and_figure_has_a_share(paper: str, store: MadeStore) -> None:
    tables = [f"Table {number}" for number in load_paper(paper).numbers]
    assert list(shares_in(store, paper)) == [*tables, *FIGURES[paper]]


def test_trials_fill_their_cells(store: MadeStore) -> None:
    """An empty store has the defaults alone, and a trial of another protocol fills nothing."""
    for _ in range(2):
        empty = shares_in(store, "diffcse")
        # GloVe needs a file; 2 of 17 rows are quoted.
        assert empty["Table 1"] == "0 of 112 cells, 8 need input, 16 quoted only"
        assert empty["Table 13"] == "6 of 6 defaults"
        assert empty["Table 14"] == "0 of 4 cells, 2 quoted only"
        store.trial(protocol=1)
    store.trial()
    filled = shares_in(store, "diffcse")
    assert filled["Table 1"].startswith("16 of 112 cells")  # SimCSE, and SimCSE reproduced
    assert filled["Table 7"] == "0 of 6 cells"
    assert filled["Table 3"].startswith("1 of 10 cells")  # without the transfer tasks
    assert filled["Table 9"] == "9 of 18 cells"
    assert filled["Figure 2"] == "1 of 2 runs"
