"""`harness table --rows --columns`: one's own tables."""

from collections.abc import Callable

import pytest

from harness.cli.table import table
from harness.errors import UserError
from harness.report.groups import comparable_groups
from harness.report.score_columns import store_cell
from harness.report.store_tables import own_table, store_tables
from harness.report.tables import Table, address_name
from harness.trials.store import Store

AddTrial = Callable[..., str]

TRANSFER = ("mr", "cr", "subj", "mpqa", "sst2", "trec", "mrpc", "transfer-avg")
TASKS = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr")


@pytest.fixture
def lengths(store: Store, add_trial: AddTrial) -> Store:
    """Prompts of three lengths with two seeds each, and a method without prompts."""
    for length, score in ((10, 76.0), (2, 74.0), (4, 75.0)):
        for shift in (0.0, 1.0):
            add_trial({"prompt_length": length}, score + shift, method="dcpcse")
    add_trial(score=60.0, encoder="roberta-base")
    return store


def own(store: Store, rows: str = "", columns: str = "") -> Table:
    split = [tuple(filter(None, text.split(","))) for text in (rows, columns)]
    return own_table(store.read(), store.folder, *split)


def test_rows_and_columns_are_those_that_are_named(lengths: Store) -> None:
    sheet = own(lengths, "method,prompt_length", "stsb,avg")
    assert list(sheet.columns) == ["method", "prompt_length", "n", "STS-B", "Avg."]
    assert sheet.sections[0].lines == [
        ["dcpcse", "2", "2", "74.50±0.71", "74.50±0.71"],
        ["dcpcse", "4", "2", "75.50±0.71", "75.50±0.71"],
        ["dcpcse", "10", "2", "76.50±0.71", "76.50±0.71"],
        ["simcse", "", "1", "60.00", "60.00"],
    ]


def test_of_several_groups_dev_chooses_and_a_note_says_so(
    store: Store, add_trial: AddTrial
) -> None:
    add_trial({"learning_rate": 1e-5}, 70.0, dev={"stsb-dev": 81.0})
    add_trial({"learning_rate": 3e-5}, 90.0, dev={"stsb-dev": 80.0})
    sheet = own(store, "method", "avg")
    assert sheet.sections[0].lines == [["simcse", "1", "70.00"]]
    assert sheet.notes[0].endswith(
        "the best mean dev score is shown: row 1 (simcse learning_rate=1e-05, one of 2)"
    )


def test_todays_protocol_goes_before_another(store: Store, add_trial: AddTrial) -> None:
    add_trial(score=70.0)
    add_trial(score=90.0, dev={"stsb-dev": 99.0}, protocol=1)
    assert own(store, "method", "avg").sections[0].lines == [["simcse", "1", "70.00"]]


def test_columns_of_several_suites_have_an_n_of_their_own(
    store: Store, add_trial: AddTrial, add_evaluation: Callable[..., str]
) -> None:
    keys = [add_trial(score=score) for score in (74.0, 76.0)]
    tasks = dict.fromkeys(("mr", "cr", "subj", "mpqa", "sst2", "trec", "mrpc"), 80.0)
    add_evaluation("transfer-senteval", tasks | {"transfer-avg": 80.0}, of=keys[0])
    sheet = own(store, "method", "avg,transfer-avg,dev")
    assert list(sheet.columns) == ["method", "n", "avg", "transfer-avg", "dev"]
    assert sheet.sections[0].lines == [["simcse", "2, 1", "75.00±1.41", "80.00", "80.00±0.00"]]
    assert own(store, "method").metrics == ["dev", "avg", "transfer-avg"]


def test_records_are_those_of_the_columns(lengths: Store) -> None:
    records = own(lengths, "prompt_length", "avg").records.to_pylist()
    assert [(row["metric"], row["mean"]) for row in records] == [
        ("avg", mean) for mean in (74.5, 75.5, 76.5, 60.0)
    ]
    assert [trial["value"] for trial in records[1]["trials"]] == [75.0, 76.0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"rows": "metod"}, '--rows: no trial of the store has "metod"; did you mean "method"?'),
        ({"columns": "stsbb"}, '"stsbb"; did you mean "stsb"?'),
        ({"rows": "method,"}, "write names with commas between them"),
        ({"rows": "method", "paper": "diffaug"}, "leave --paper out"),
    ],
)
def test_what_is_wrong_is_one_sentence(
    lengths: Store, options: dict[str, str], sentence: str
) -> None:
    with pytest.raises(UserError) as raised:
        table(store=str(lengths.folder), **options)
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.fixture
def two_suites(store: Store, add_trial: AddTrial, add_evaluation: Callable[..., str]) -> Store:
    """SimCSE as measured by two suites with the same metrics, and D2CSE by one of them."""
    for seed in (0, 1):
        key = add_trial(score=75.0, seed=seed)
        add_evaluation("transfer", dict.fromkeys(TRANSFER, 90.5), of=key, seed=seed)
        add_evaluation("transfer-senteval", dict.fromkeys(TRANSFER, 80.5), of=key, seed=seed)
        other = add_trial(score=70.0, seed=seed, method="d2cse")
        given = {"of": other, "seed": seed, "method": "d2cse"}
        add_evaluation("transfer-senteval", dict.fromkeys(TRANSFER, 80.5), **given)
    return store


def test_a_metric_of_two_suites_is_named_with_the_suite(two_suites: Store) -> None:
    sheet = own(two_suites, "method", "transfer:mr,transfer-senteval:mr")
    assert list(sheet.columns) == ["method", "n", "transfer:mr", "transfer-senteval:mr"]
    assert sheet.sections[0].lines == [
        ["d2cse", "2", "", "80.50±0.00"],
        ["simcse", "2", "90.50±0.00", "80.50±0.00"],
    ]
    found = {(row["suite"], row["mean"]) for row in sheet.records.to_pylist()}
    assert found == {("transfer", 90.5), ("transfer-senteval", 80.5)}
    with pytest.raises(
        UserError, match="several suites have it: transfer-senteval:mr, transfer:mr"
    ):
        own(two_suites, "method", "mr")
    # The other one, "transfer", has no card, and so no average of its own.
    assert own(two_suites, "method").metrics == ["dev", "avg", "transfer-senteval:transfer-avg"]


def test_an_address_leads_to_the_suite_of_its_table(two_suites: Store) -> None:
    groups = comparable_groups(two_suites.read().table)
    for sheet in store_tables(two_suites.read(), two_suites.folder):
        for row in sheet.rows:
            for metric, shown in zip(sheet.metrics, row.cells, strict=True):
                if shown.ours:
                    _, _, cell = store_cell(groups, int(row.address), address_name(metric))
                    assert cell.mean == shown.ours.mean
    assert store_cell(groups, 1, "mr")[2].mean == 80.5, "d2cse has it of one suite"
    with pytest.raises(UserError, match='row 2 has no score "mr"; several suites have it'):
        store_cell(groups, 2, "mr")
