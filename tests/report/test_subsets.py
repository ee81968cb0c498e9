"""Trials over label subsets are one group."""

from collections.abc import Sequence
from typing import Any

from harness.report.groups import design
from tests.report.conftest import MadeStore

FRACTION = {"label_fraction": 0.01}


def add_design(
    store: MadeStore, scores: Sequence[Sequence[float]], configuration: dict[str, Any] = FRACTION
) -> None:
    """One trial for each score: rows are subsets, and columns are seeds."""
    for subset, row in enumerate(scores):
        for seed, score in enumerate(row):
            store.trial(configuration | {"subset": subset}, score, seed=seed, setting="sup")


def test_n_says_the_design_where_it_is_full() -> None:
    for sizes, n in (([3] * 5, "5x3"), ([1] * 5, "5x1"), ([3], "3"), ([3, 2], "5")):
        assert design([(at, seed) for at, seeds in enumerate(sizes) for seed in range(seeds)]) == n
    assert design([(0, 0), (0, 1), (1, 2), (1, 3)]) == "4"


def test_the_same_run_with_all_labels_is_not_counted_twice(store: MadeStore) -> None:
    """The subset changes nothing with all labels, so its trials are copies."""
    for subset in (0, 3):
        store.trial({"label_fraction": 1.0, "subset": subset}, seed=0)
    assert [group.n for group in store.groups()] == ["1", "1"]


def test_one_subset_is_no_design(store: MadeStore) -> None:
    add_design(store, [[70, 72]])
    (sheet,) = store.sheets()
    assert [line[3:5] for line in sheet.sections[0].lines] == [["1 %", "2"]]
    assert "subsets" not in sheet.caption


def test_what_reads_no_labels_has_no_share_of_them(store: MadeStore) -> None:
    add_design(store, [[70, 72]])
    store.trial({"label_fraction": 1.0}, setting="sup")
    store.trial({"label_fraction": 1.0}, setting="unsup")
    (sheet,) = store.sheets()
    shares = [line[3] for section in sheet.sections for line in section.lines]
    assert sorted(shares) == ["", "1 %", "100 %"]
    assert set(sheet.records["label_fraction"].to_pylist()) == {None, 0.01, 1.0}


def test_a_failed_trial_is_listed_with_its_subset(store: MadeStore) -> None:
    store.trial(
        FRACTION | {"subset": 3}, status="failed", seed=1, reason="loss is nan", dev={}, test={}
    )
    (sheet,) = store.sheets()
    assert "simcse unsup bert-base-uncased seed 1 subset 3 of 1 % (loss is nan)" in sheet.notes[-1]


def test_a_share_of_the_labels_answers_its_own_column(store: MadeStore) -> None:
    add_design(store, [[70, 72], [76, 80]])
    store.trial({"label_fraction": 1.0, "subset": 0}, 81.0, setting="sup")
    *sections, _ = store.paper("diffaug", 2).sections  # the last one has the released checkpoints
    lines = [line for section in sections for line in section.lines]
    start = max(index for index, line in enumerate(lines) if line[0].startswith("SimCSE ["))
    assert [line[1:] for line in lines[start : start + 3]] == [
        ["published", "", "", "75.26±0.4", "79.04±0.2", "81.58±0.1"],
        ["ours", "2x2, 1", "", "74.50±4.43", "", "81.00"],
        ["Δ", "", "", "-0.76≈", "", "-0.58"],
    ]


def test_no_labels_are_the_unsupervised_method(store: MadeStore) -> None:
    store.trial(score=76.0)
    (row,) = (
        row
        for row in store.paper("diffaug", 2).records.to_pylist()
        if row["column"] == "0%" and row["n"]
    )
    assert (row["setting"], row["published"], row["mean"]) == ("unsup", 76.25, 76.0)
    assert row["origin"] == "quoted:Gao et al. 2021 (unsupervised SimCSE)"


def test_the_command_for_a_share_names_the_subsets(store: MadeStore) -> None:
    rows = [row for row in store.paper("diffaug", 2).records.to_pylist() if row["column"] == "1%"]
    for row in rows:
        assert f"search_spaces/{row['setting']}.yaml" in row["command"]
        assert "--set label_fraction=0.01 --subsets 0,1,2,3,4" in row["command"]
    assert [row["setting"] for row in rows] == ["semisup"] * 3 + ["sup"] * 3
