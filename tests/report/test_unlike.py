"""What differs from the paper stands under its table, and another system has no difference."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from harness.report.matching import Commands
from harness.report.paper import load_systems
from harness.report.paper_tables import paper_tables
from harness.report.papers import load_paper
from harness.report.tables import Table
from harness.trials.store import Store
from tests.report.conftest import lines_of

AddTrial = Callable[..., str]
Paper = Callable[..., Table]
METHODS = ("simcse", "consert", "clsr", "diffcse", "diffaug", "dcpcse")


@pytest.fixture
def paper(store: Store) -> Paper:
    def sheet(name: str, number: int, encoder: str | None = None) -> Table:
        commands = Commands(METHODS, store.folder)
        return paper_tables(store.read(), name, commands, str(number), encoder=encoder)[0]

    return sheet


def unlike(notes: Sequence[str]) -> list[str]:
    return [note for note in notes if note.startswith("Unlike the paper, ")]


@pytest.mark.parametrize(
    ("values", "steps", "parts"),
    [
        ({"max_steps": 20}, 20, ["max_steps 20 (paper: none)", "20 steps"]),
        ({"batch_size": 16}, 100, ["batch_size 16 (paper: 64)"]),
        (
            {"sentences": "graded-sentences"},
            100,
            ["graded-sentences (paper: wiki1m, 1,000,000 items)"],
        ),
    ],
)
def test_a_short_run_on_the_right_encoder_says_so_beside_its_difference(
    values: dict[str, Any], steps: int, parts: list[str], paper: Paper, add_trial: AddTrial
) -> None:
    add_trial(values, score=70.0, steps=steps)
    sheet = paper("diffaug", 1)
    assert [line[1] for line in lines_of(sheet, "SimCSE")] == ["published", "ours", "Δ"]
    [note] = unlike(sheet.notes)
    assert note.startswith("Unlike the paper, SimCSE (unsup): ")
    for part in parts:
        assert part in note


def test_another_encoder_is_named_with_what_else_differs(paper: Paper, add_trial: AddTrial) -> None:
    add_trial(score=70.0)
    assert unlike(paper("diffaug", 1).notes) == [], "it is as published"
    add_trial({"max_steps": 20}, score=70.0, encoder="mini-bert")
    sheet = paper("diffaug", 1, encoder="mini-bert")
    assert [line[1] for line in lines_of(sheet, "SimCSE")] == ["published", "ours"], "no Δ"
    assert any("on mini-bert in the place of bert-base-uncased" in note for note in sheet.notes)
    fill = "To fill: harness sweep --paper diffaug --table 1 --encoder mini-bert"
    assert any(note.startswith(fill) for note in sheet.notes)
    [note] = unlike(sheet.notes)
    assert "encoder mini-bert (paper: bert-base-uncased)" in note
    assert "max_steps 20 (paper: none)" in note


@pytest.mark.parametrize(
    ("name", "number", "label", "words", "trial"),
    [
        ("dcpcse", 1, "ConSERT-BERT", "texts of the STS tests", {"method": "consert"}),
        ("dcpcse", 1, "ConSERT-BERT", "joint-unsup", {"method": "consert", "setting": "sup"}),
        ("d2cse", 1, "ConSERT-BERT", "texts of the STS tests", {"method": "consert"}),
    ],
)  # fmt: skip
def test_a_number_of_another_system_has_a_remark_and_no_difference(
    name: str, number: int, label: str, words: str, trial: dict[str, Any], paper: Paper,
    add_trial: AddTrial,
) -> None:  # fmt: skip
    add_trial(score=70.0, **trial)
    sheet = paper(name, number)
    section = 1 if name == "dcpcse" and trial.get("setting") == "sup" else 0
    found = lines_of(sheet, label, section)
    assert found[0][0].endswith("§")
    assert [line[1] for line in found] == ["published", "ours"], "no Δ"
    assert any(note.startswith("§ ") and words in note for note in sheet.notes)


def test_clsr_2_has_a_row_of_each_corpus(paper: Paper, add_trial: AddTrial) -> None:
    """The caption says STS-B pairs, and a number is that of NLI entailments in Table 1."""
    for corpus, dev in (("stsb-similar", 60.0), ("nli-entailments", 70.0)):
        values = {"batch_size": 64, "pairs": corpus}
        add_trial(values, method="clsr", setting="sup", dev={"stsb-dev": dev})
    sheet = paper("clsr", 2)
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


def test_added_parameters_are_those_of_the_paper(paper: Paper, add_trial: AddTrial) -> None:
    """294,912 of 109,482,240 for the prefixes, 0 for dropout: no heads, no networks of training."""
    sizes = {"parameters_total": 109_482_240 + 15_372_290, "parameters_added": 15_372_290}
    prefix = {"augmentation": "prefix", "prompt_length": 8, "rank": 4, "views": "different",
              "second_stage": "all", "auxiliary_weight": 0.0, "analysis": False}  # fmt: skip
    add_trial(prefix, method="diffaug", setting="semisup", dev={"stsb-dev": 86.0}, **sizes)
    adapter = prefix | {"augmentation": "adapter", "rank": 64}
    add_trial(adapter, method="diffaug", setting="semisup", dev={"stsb-dev": 85.0}, **sizes)
    add_trial(dev={"stsb-dev": 82.0}, parameters_total=110_072_832, parameters_added=590_592)
    sheet = paper("diffaug", 3)
    assert lines_of(sheet, "Dropout")[1][3:] == ["0.0", "82.0"]
    _, ours, delta = lines_of(sheet, "Prefix (different", 1)
    assert (ours[3], delta[3]) == ("0.3", "+0.0≈") or ours[3] == "0.3"
    assert lines_of(sheet, "Adapter (different, r = 64)", 2)[1][3] == "4.3"
    assert any("294,912" in note for note in sheet.notes)
    record = next(
        row for row in sheet.records.to_pylist() if row["label"].startswith("Prefix (dif")
    )
    assert record["mean"] == pytest.approx(100 * 294_912 / 109_482_240)


@pytest.mark.parametrize(
    ("name", "number", "words"),
    [
        ("diffaug", 4, "4 x 128"),
        ("diffaug", 5, "4 x 128"),
        *(("diffcse", number, "lost its tables") for number in (1, 9, 12)),
    ],
)
def test_a_table_says_where_its_numbers_come_from(
    name: str, number: int, words: str, paper: Paper
) -> None:
    assert any(words in note for note in paper(name, number).notes)


def test_published_numbers_have_the_papers_decimals(paper: Paper) -> None:
    assert lines_of(paper("diffaug", 3), "Synonym")[0][3:] == ["0", "77.4"]
    assert lines_of(paper("d2cse", 5), "D2CSE-BERT base")[0][3:] == ["0.062", "-1.2627", "79.02"]
    assert lines_of(paper("d2cse", 5), "DiffCSE-BERT base", 1)[0][3:] == [
        "0.0470",
        "-1.2857",
        "81.44",
    ]


def test_a_corpus_has_the_size_that_its_trials_had(paper: Paper, add_trial: AddTrial) -> None:
    add_trial({"sentences": "mine.txt"}, score=70.0, corpora={"mine.txt": 1234})
    [note] = unlike(paper("diffaug", 1).notes)
    assert "sentences mine.txt, 1,234 items (paper: wiki1m, 1,000,000 items)" in note
