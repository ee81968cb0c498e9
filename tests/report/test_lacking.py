"""What a published table still lacks, by the trials of a store."""

from collections.abc import Callable
from typing import Any

import pytest

from harness.report.coverage import lacking
from harness.report.paper_cells import Comparer
from harness.report.published import load_paper
from harness.trials.store import Store

Add = Callable[..., str]


def missing(store: Store, paper: str, table: str, *, seeds: int = 3, subsets: int = 5) -> list[str]:
    """What the table lacks, as text."""
    found = lacking(Comparer(store.read().table).table(load_paper(paper), table), seeds, subsets)
    return [str(wanted) for wanted in found]


def joint(**values: Any) -> dict[str, Any]:
    """What differs in a trial of Table 6 of DiffAug."""
    return {"setting": "semisup", "configuration": {"schedule": "joint", **values}}


def test_an_empty_store_lacks_every_run_once(store: Store) -> None:
    found = missing(store, "diffaug", "table6")
    assert len(found) == len(set(found)) == 9
    assert found[3] == "simcse semisup bert-base-uncased schedule=joint"


def test_quoted_rows_and_repeated_rows_are_run_once(store: Store) -> None:
    """DiffCSE's Table 1 has SimCSE twice, and systems that no method here makes."""
    found = missing(store, "diffcse", "table1")
    assert found.count("simcse unsup bert-base-uncased") == 1
    assert not any("cmlm" in each for each in found)


def test_a_cell_with_enough_seeds_is_filled(store: Store, add_trial: Add) -> None:
    for number in range(2):
        add_trial(seed=number, **joint())
    assert "simcse semisup bert-base-uncased schedule=joint" in missing(store, "diffaug", "table6")
    add_trial(seed=2, **joint())
    found = missing(store, "diffaug", "table6")
    assert "simcse semisup bert-base-uncased schedule=joint" not in found
    assert len(found) == 8
    assert len(missing(store, "diffaug", "table6", seeds=4)) == 9


@pytest.mark.slow
def test_a_share_of_the_labels_needs_every_subset(store: Store, add_trial: Add) -> None:
    wanted = "simcse semisup bert-base-uncased label_fraction=0.01 schedule=joint"
    for subset in range(5):
        for seed in range(3):
            assert wanted in missing(store, "diffaug", "table2")
            share = {"label_fraction": 0.01, "subset": subset}
            add_trial(key=f"{subset}{seed}" * 16, seed=seed, **joint(**share))
    assert wanted not in missing(store, "diffaug", "table2")


def test_without_labels_the_unsupervised_method_is_wanted(store: Store) -> None:
    found = missing(store, "diffaug", "table2")
    assert "simcse unsup bert-base-uncased" in found
    assert "diffaug unsup bert-base-uncased" not in found


def test_one_trial_is_enough_where_nothing_trains(store: Store, add_trial: Add) -> None:
    add_trial({"pooling": "cls"}, method="pooling", steps=0)
    found = missing(store, "diffaug", "table1")
    assert "pooling unsup bert-base-uncased pooling=cls" not in found
    assert "pooling unsup bert-base-uncased pooling=mean" in found


def test_a_trial_that_only_lacks_a_suite_is_not_trained_again(store: Store, add_trial: Add) -> None:
    for seed in range(3):
        add_trial(seed=seed)
    assert "simcse unsup bert-base-uncased" not in missing(store, "diffcse", "table2")
