"""Differences from the paper stand under its table, and another system has none."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from harness.report.page.content import StoredTrials, table_grid
from harness.report.paper import load_systems
from harness.report.papers import load_paper
from harness.report.tables import Table
from tests.report.conftest import MadeStore, lines_of

METHODS = ("simcse", "consert", "clsr", "diffcse", "diffaug", "dcpcse")


def paper(store: MadeStore, name: str, number: int, **options: Any) -> Table:
    return store.paper(name, number, methods=METHODS, **options)


def unlike(notes: Sequence[str]) -> list[str]:
    return [note for note in notes if note.startswith("Unlike the paper, ")]


@pytest.mark.parametrize(
    ("values", "different", "parts"),
    [
        ({"max_steps": 20}, {"steps": 20}, ["max_steps 20 (paper: none)", "20 steps"]),
        ({"batch_size": 16}, {}, ["batch_size 16 (paper: 64)"]),
        ({"sentences": "graded-sentences"}, {},
         ["sentences graded-sentences (paper: wiki1m, 1,000,000 items)"]),
        ({"sentences": "mine.txt"}, {"corpora": {"mine.txt": 1234}},
         ["sentences mine.txt, 1,234 items (paper: wiki1m, 1,000,000 items)"]),
    ],
)  # fmt: skip
def test_a_short_run_on_the_right_encoder_says_so_beside_its_difference(
    values: dict[str, Any], different: dict[str, Any], parts: list[str], store: MadeStore
) -> None:
    store.trial(values, score=70.0, **different)
    sheet = paper(store, "diffaug", 1)
    assert [line[1] for line in lines_of(sheet, "SimCSE")] == ["published", "ours", "Δ"]
    [note] = unlike(sheet.notes)
    assert note.startswith("Unlike the paper, SimCSE (unsup): ")
    for part in parts:
        assert part in note


def test_what_a_paper_searched_and_does_not_print_is_any_value_that_it_tried(
    store: MadeStore,
) -> None:
    joint = {"schedule": "joint", "auxiliary_weight": 1.0}
    store.trial(joint, setting="semisup")
    assert unlike(paper(store, "diffaug", 6).notes) == []
    store.trial(joint | {"auxiliary_weight": 5.0}, setting="semisup", dev={"stsb-dev": 99.0})
    [note] = unlike(paper(store, "diffaug", 6).notes)
    assert "auxiliary_weight 5.0 (paper: 0.0001 or 0.001 or 0.01 or 0.1 or 1.0)" in note


def test_another_encoder_is_named_with_what_else_differs(store: MadeStore) -> None:
    store.trial(score=70.0)
    assert unlike(paper(store, "diffaug", 1).notes) == [], "it is as published"
    store.trial({"max_steps": 20}, score=99.0, encoder="mini-bert")
    assert lines_of(paper(store, "diffaug", 1), "SimCSE")[1][3] == "70.00"
    sheet = paper(store, "diffaug", 1, encoder="mini-bert")
    assert [line[1] for line in lines_of(sheet, "SimCSE")] == ["published", "ours"], "no Δ"
    assert any("on mini-bert in the place of bert-base-uncased" in note for note in sheet.notes)
    fill = "To fill: harness sweep --paper diffaug --table 1 --encoder mini-bert"
    assert any(note.startswith(fill) for note in sheet.notes)
    grid = table_grid("table-1", sheet, StoredTrials(store.read().records(), str))
    reason = "Reason: ours is on mini-bert in the place of bert-base-uncased."
    assert reason in json.dumps(grid.data), "the page says why, as `harness show` does"
    [note] = unlike(sheet.notes)
    assert "encoder mini-bert (paper: bert-base-uncased)" in note
    assert "max_steps 20 (paper: none)" in note


@pytest.mark.parametrize(
    ("name", "section", "words", "trial"),
    [
        ("dcpcse", 0, "texts of the STS tests", {}),
        ("dcpcse", 1, "joint-unsup", {"setting": "sup"}),
        ("d2cse", 0, "texts of the STS tests", {}),
    ],
)  # fmt: skip
def test_a_number_of_another_system_has_a_remark_and_no_difference(
    name: str, section: int, words: str, trial: dict[str, Any], store: MadeStore
) -> None:
    store.trial(score=70.0, method="consert", **trial)
    sheet = paper(store, name, 1)
    found = lines_of(sheet, "ConSERT-BERT", section)
    assert found[0][0].endswith("§")
    assert [line[1] for line in found] == ["published", "ours"], "no Δ"
    assert any(note.startswith("§ ") and words in note for note in sheet.notes)


def test_clsr_2_has_a_row_of_each_corpus(store: MadeStore) -> None:
    """The caption says STS-B pairs, and a number is that of NLI entailments in Table 1."""
    for corpus, dev in (("stsb-similar", 60.0), ("nli-entailments", 70.0)):
        values = {"batch_size": 64, "pairs": corpus}
        store.trial(values, method="clsr", setting="sup", dev={"stsb-dev": dev})
    sheet = paper(store, "clsr", 2)
    published, ours, delta = lines_of(sheet, "STS-B")
    assert (published[3], ours[3], delta[3][:5]) == ("64.93", "60.00", "-4.93")
    assert [line[1] for line in lines_of(sheet, "NLI")] == ["published", "ours"]
    assert lines_of(sheet, "NLI")[1][3] == "70.00"
    assert any("76.74 at batch 512" in note for note in sheet.notes)


def test_every_remark_is_about_a_row_that_is_there() -> None:
    assert "released" in load_systems().table_runs["d2cse.table4"].unlike["diffcse"]["unsup"]
    for place, runs in load_systems().table_runs.items():
        name, _, table = place.partition(".")
        rows = {(row.system, row.setting) for row in load_paper(name).tables[table].rows}
        for system, settings in runs.unlike.items():
            assert {(system, setting) for setting in settings} <= rows


def test_added_parameters_are_those_of_the_paper(store: MadeStore) -> None:
    """294,912 of 109,482,240 for the prefixes, 0 for dropout: no heads, no networks of training."""
    sizes = {"parameters_total": 109_482_240 + 15_372_290, "parameters_added": 15_372_290}
    prefix = {"augmentation": "prefix", "prompt_length": 8, "rank": 4, "views": "different",
              "second_stage": "all", "auxiliary_weight": 0.0, "analysis": False}  # fmt: skip
    store.trial(prefix, method="diffaug", setting="semisup", dev={"stsb-dev": 86.0}, **sizes)
    adapter = prefix | {"augmentation": "adapter", "rank": 64}
    store.trial(adapter, method="diffaug", setting="semisup", dev={"stsb-dev": 85.0}, **sizes)
    store.trial(dev={"stsb-dev": 82.0}, parameters_total=110_072_832, parameters_added=590_592)
    sheet = paper(store, "diffaug", 3)
    assert lines_of(sheet, "Dropout")[1][3:] == ["0.0", "82.0"]
    _, ours, delta = lines_of(sheet, "Prefix (different", 1)
    assert (ours[3], delta[3]) == ("0.3", "+0.0≈") or ours[3] == "0.3"
    assert lines_of(sheet, "Adapter (different, r = 64)", 2)[1][3] == "4.3"
    assert any("294,912" in note for note in sheet.notes)
    rows = sheet.records.to_pylist()
    record = next(row for row in rows if row["label"].startswith("Prefix (dif"))
    assert record["mean"] == pytest.approx(100 * 294_912 / 109_482_240)


def test_a_table_says_where_its_numbers_come_from(store: MadeStore) -> None:
    tables = [("diffaug", number, "4 x 128") for number in (4, 5)]
    for name, number, words in tables + [
        ("diffcse", each, "lost its tables") for each in (1, 9, 12)
    ]:
        assert any(words in note for note in paper(store, name, number).notes)


def test_published_numbers_have_the_papers_decimals(store: MadeStore) -> None:
    assert lines_of(paper(store, "diffaug", 3), "Synonym")[0][3:] == ["0", "77.4"]
    assert lines_of(paper(store, "d2cse", 5), "D2CSE-BERT base")[0][3:] == [
        "0.062",
        "-1.2627",
        "79.02",
    ]
    published, *_ = lines_of(paper(store, "d2cse", 5), "DiffCSE-BERT base", 1)
    assert published[3:] == ["0.0470", "-1.2857", "81.44"]
