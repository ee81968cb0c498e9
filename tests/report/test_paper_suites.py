"""`harness table --paper`: tables of transfer tasks, retrieval, alignment and uniformity."""

from typing import Any

import pytest

from harness.evaluation.catalogue import metric_under
from harness.plugin import registry
from harness.plugin.resolution import resolve
from harness.targets.published import lacking_suites, printed_suites
from tests.report.conftest import NEVER_RUN, TRANSFER, MadeStore, lines_of


def evaluations(store: MadeStore, paper: str, number: int) -> list[str]:
    """The models and suites that `harness sweep --paper P --table N` measures."""
    lacking = lacking_suites([store.compared(paper, number)]).items()
    return [
        " ".join(filter(None, [name[:24], pooling, *printed_suites(suites)]))
        for (name, pooling, _), suites in lacking
    ]


def row_of(store: MadeStore, paper: str, number: int, label: str = "SimCSE-BERT base") -> list[Any]:
    return lines_of(store.paper(paper, number), label, 0)


@pytest.mark.parametrize(
    ("paper", "table", "metrics"),
    [
        ("diffcse", 1, "sts12 sts13 sts14 sts15 sts16 stsb sickr avg"),
        ("diffcse", 2, " ".join(TRANSFER)),
        ("diffcse", 10, "recall@1 recall@5 recall@10"),
        ("d2cse", 4, "recall@1 recall@3 recall@5 avg"),
        ("diffcse", 11, "alignment uniformity avg"),
        ("d2cse", 5, "alignment uniformity avg"),
        ("clsr", 3, "sts12 sts13 sts14 sts15 sts16 stsb avg-without-sickr"),
    ],
)
def test_each_column_is_a_metric(paper: str, table: int, metrics: str, store: MadeStore) -> None:
    row = store.compared(paper, table).sections[0][1][0]
    assert [each.metric.name for each in row.cells if each.metric] == metrics.split()


@pytest.mark.parametrize(
    ("headings", "metrics"),
    [
        ("graded R@1 Uniformity STS-B MR", "graded recall@1 uniformity stsb mr"),
        ("graded MR Avg.", "graded mr transfer-avg"),
        ("graded R@1 STS12 Avg.", "graded recall@1 sts12 avg"),
    ],
)
def test_headings_of_several_suites_are_metrics_of_their_own(headings: str, metrics: str) -> None:
    columns = headings.split()
    assert [metric_under(heading, columns).name for heading in columns] == metrics.split()


def test_a_stored_score_of_the_classifier_that_went_is_not_taken_for_the_papers(
    store: MadeStore,
) -> None:
    key = store.trial(key="0" * 32)
    store.evaluation("transfer", dict.fromkeys(TRANSFER, 80.0), of=key)
    assert len(row_of(store, "diffcse", 2)) == 1
    assert evaluations(store, "diffcse", 2) == [f"{key[:24]} transfer-senteval"]


def test_geometry_has_as_many_decimals_as_are_published(store: MadeStore) -> None:
    for alignment in (0.2, 0.21):
        store.evaluation(
            "geometry", {"alignment": alignment, "uniformity": -2.0004}, of=store.trial(score=76.0)
        )
    assert [line[2:] for line in row_of(store, "diffcse", 11)] == [
        ["", "0.177", "-2.313", "76.16"],
        ["2", "0.205±0.007", "-2.000±0.000", "76.00±0.00"],
        ["", "+0.028≈", "+0.313≠", "-0.16≠"],
    ]
    assert [line[2:] for line in row_of(store, "d2cse", 5)] == [
        ["", "0.1770", "-2.3130", "76.16"],
        ["2", "0.2050±0.0071", "-2.0004±0.0000", "76.00±0.00"],
        ["", "+0.0280≈", "+0.3126≠", "-0.16≠"],
    ]


def test_columns_of_two_suites_have_two_n(store: MadeStore) -> None:
    keys = [store.trial(score=score) for score in (75.0, 76.0, 77.0)]
    store.evaluation("geometry", {"alignment": 0.2}, of=keys[0])
    _, ours, delta = row_of(store, "diffcse", 11)
    assert ours[2:] == ["1, 3", "0.200", "", "76.00±1.00"]
    assert delta[3:] == ["+0.023", "", "-0.16≈"]


def test_scores_of_other_dev_sets_do_not_decide(store: MadeStore) -> None:
    store.trial(
        {"suite": "graded"}, dev={"graded-dev": 99.0}, test={"graded": 99.0}, suite="graded"
    )
    store.trial(score=70.0)
    assert row_of(store, "diffcse", 1)[1][-1] == "70.00"


# What a published table lacks of trials that are in the store: scores of one more suite.


def test_a_trial_without_the_suite_has_its_command(store: MadeStore) -> None:
    keys = [store.trial(key=f"{number}" * 32, seed=number) for number in (1, 2, 3)]
    assert [line[1] for line in row_of(store, "diffcse", 2)] == ["published"]
    assert evaluations(store, "diffcse", 2) == [f"{each[:24]} transfer-senteval" for each in keys]
    store.evaluation("transfer-senteval", dict.fromkeys(TRANSFER, 80.0), of=keys[1], seed=2)
    assert row_of(store, "diffcse", 2)[1][2] == "1"
    assert evaluations(store, "diffcse", 2) == [
        f"{each[:24]} transfer-senteval" for each in (keys[0], keys[2])
    ]
    fills = f"To fill: harness sweep --paper diffcse --table 2 --store {store.folder}"
    assert fills in store.paper("diffcse", 2).notes


def test_a_partial_evaluation_is_run_again(store: MadeStore) -> None:
    partial = {"status": "partial", "reason": "no mrpc"}
    of = store.trial(key="1" * 32, seed=1)
    store.evaluation("transfer-senteval", dict.fromkeys(TRANSFER[:6], 80.0), of, seed=1, **partial)
    assert row_of(store, "diffcse", 2)[1][3:] == [*["80.00"] * 6, "", ""]
    assert evaluations(store, "diffcse", 2) == [f"{'1' * 24} transfer-senteval"]


def test_a_column_of_dev_scores_asks_for_dev_alone(store: MadeStore) -> None:
    """DiffCSE's Table 3 has the transfer tasks' dev scores; its Table 2 has their tests."""
    store.trial(key="4" * 32, seed=4)
    assert evaluations(store, "diffcse", 3) == [f"{'4' * 24} transfer-senteval (dev)"]
    dev = {"transfer-senteval-dev": 85.0}
    store.evaluation("transfer-senteval", {}, of="4" * 32, seed=4, dev=dev)
    assert evaluations(store, "diffcse", 3) == []
    assert row_of(store, "diffcse", 3, "SimCSE")[1][2:] == ["1", "80.00", "85.00"]
    assert evaluations(store, "diffcse", 2) == [f"{'4' * 24} transfer-senteval"]


def test_the_sts_column_asks_for_sts(store: MadeStore) -> None:
    """The pooled encoder is named by its key once it is a trial."""
    values: dict[str, Any] = {"method": "pooling", "steps": 0, "seed": 0}
    pooled = {"pooling": "first-last-embeddings"}
    geometry = {"alignment": 0.2, "uniformity": -1.5}
    store.evaluation("geometry", geometry, NEVER_RUN, pooled, **values)
    ours = row_of(store, "diffcse", 11, "Avg. BERT base")[1][2:]
    assert ours == ["–", "0.200", "-1.500", ""]
    assert evaluations(store, "diffcse", 11) == ["bert-base-uncased first-last-embeddings sts"]
    store.trial({"pooling": "mean"}, key="6" * 32, **values)
    assert evaluations(store, "diffcse", 2) == [f"{'6' * 24} transfer-senteval"]


def test_dev_decides_though_another_group_was_measured(store: MadeStore) -> None:
    worse = {"learning_rate": 1e-5}
    tested = dict.fromkeys(TRANSFER, 90.0)
    store.evaluation("transfer-senteval", tested, store.trial(worse), worse)
    store.trial(key="5" * 32, dev={"stsb-dev": 81.0})
    assert len(row_of(store, "diffcse", 2)) == 1
    assert evaluations(store, "diffcse", 2) == [f"{'5' * 24} transfer-senteval"]


@pytest.mark.parametrize(
    ("values", "in_table"),
    [
        ({}, True),
        ({"learning_rate": 3e-5}, True),
        ({"learning_rate": "3e-5"}, True),  # YAML 1.1 reads it as a text
        ({"learning_rate": 1e-5}, False),
        ({"auxiliary_weight": 0.5}, True),  # without labels it counts for nothing
        ({"rank": 4}, True),  # another method's
        ({"sentences": "graded-sentences"}, False),
        ({"corpus": "graded-sentences"}, False),  # the same in the words of every method
        ({"corpus": "wiki1m"}, True),
        ({"triplets": "graded-triplets"}, True),  # no corpus of an unsupervised run
    ],
)
def test_given_values_are_read_as_the_method_reads_them(
    store: MadeStore, values: dict[str, Any], in_table: bool
) -> None:
    config = resolve(registry.load("simcse"), {"learning_rate": 3e-5})
    store.trial(config.deciding())
    cells = store.compared("diffaug", 1, values=values).cells
    rows = {cell.published.row.label for cell in cells if cell.published and cell.group}
    assert ("SimCSE" in rows) == in_table


@pytest.mark.parametrize(("name", "in_table"), [("gone.csv", True), ("other.csv", False)])
def test_the_corpus_of_a_stored_trial_need_not_be_here(
    store: MadeStore, name: str, in_table: bool
) -> None:
    values = {"setting": "sup", "triplets": "gone.csv", "learning_rate": 3e-5}
    config = resolve(registry.load("simcse"), values)
    store.trial(config.deciding(), setting="sup")
    for given in ({"corpus": name}, {"triplets": name, "sentences": "mine.txt"}):
        cells = store.compared("diffaug", 1, values={"learning_rate": 3e-5, **given}).cells
        assert any(cell.group for cell in cells) == in_table
