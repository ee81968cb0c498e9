"""Released checkpoints in the tables of papers: "theirs, evaluated here" beside the published."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from harness.report.cell_facts import cell_facts
from harness.report.formats import rendered
from harness.report.paper_cells import RELEASED as HEADING
from harness.report.papers import load_paper
from harness.report.tables import Row, Table, failures
from harness.targets.published import lacking_suites
from tests.report.conftest import TASKS, MadeStore

SIMCSE = "princeton-nlp/unsup-simcse-bert-base-uncased"
SUPERVISED = "princeton-nlp/sup-simcse-bert-base-uncased"
PROMPTBERT = "royokong/unsup-PromptBERT"
DIFFCSE = "voidism/diffcse-bert-base-uncased-sts"
TUNED = "voidism/diffcse-bert-base-uncased-trans"
Evaluate = Callable[..., str]


@pytest.fixture
def evaluate(store: MadeStore) -> Evaluate:
    """evaluate(checkpoint, suite, scores): what `harness eval` stores of a plain encoder."""

    def add(checkpoint: str, suite: str, scores: dict[str, float], **different: Any) -> str:
        own = {"method": "pooling", "encoder": checkpoint, "steps": None, "seed": 0, **different}
        pooling = {"pooling": own.pop("pooling", "cls")}
        return store.evaluation(suite, scores, of="a" * 32, configuration=pooling, **own)

    return add


def sheet_of(store: MadeStore, paper: str, number: int, **options: Any) -> Table:
    return store.paper(paper, number, folder="results/trials", **options)


def released(sheet: Table) -> dict[str, Row]:
    """The mark of a released checkpoint -> its row, which stands in the last section."""
    sections = [each for each in sheet.sections if each.name == HEADING]
    assert sections == [*sheet.sections][-1:]
    rows = [row for row in sections[0].rows if isinstance(row, Row)]
    return {row.names[0].rpartition(" ")[2]: row for row in rows}


def notes(sheet: Table) -> dict[str, str]:
    """Mark -> the line about a checkpoint."""
    pairs = (note.partition(" ") for note in sheet.notes if "pooling" in note)
    return {mark: text for mark, _, text in pairs}


def test_an_evaluated_checkpoint_stands_beside_the_published_row(
    store: MadeStore, evaluate: Evaluate
) -> None:
    """It is neither ranked nor compared, though it is the best, and --encoder leaves it alone."""
    for seed in range(3):
        store.trial(score=70.0 + seed)
        store.trial(score=50.0 + seed, method="consert")
    evaluate(SIMCSE, "sts", dict.fromkeys(TASKS, 76.25))
    sheet = sheet_of(store, "diffaug", 1)
    assert released(sheet)["[7]"].lines == [["SimCSE [7]", "theirs", "–", *["76.25"] * 8]]
    assert released(sheet)["[10]"].lines == [["DiffCSE [10]", "theirs", "0", *[""] * 8]]
    lacking = {"[8]": (SUPERVISED, "pooler"), "[9]": (PROMPTBERT, "mask"), "[10]": (DIFFCSE, "cls")}
    assert notes(sheet) == {"[7]": f"{SIMCSE}, cls pooling"} | {
        mark: f"{name}, {pooling} pooling; to evaluate it: harness eval {name} --pooling {pooling} "
        "--suite sts"
        for mark, (name, pooling) in lacking.items()
    }
    elsewhere = released(sheet_of(store, "diffaug", 1, encoder="mini-bert"))["[7]"]
    assert [cell.ours.mean for cell in elsewhere.cells if cell.ours] == [76.25] * 8
    ours = next(row for row in sheet.rows if row.names[0].startswith("SimCSE ["))
    assert [line[1] for line in ours.lines] == ["published", "ours", "Δ"]
    assert all(cell.best for cell in ours.cells)


def test_another_evaluation_is_not_that_of_the_checkpoint(
    store: MadeStore, evaluate: Evaluate
) -> None:
    for different in ({"pooling": "mean"}, {"encoder": "bert-base-uncased"}, {"method": "simcse"}):
        evaluate(SIMCSE, "sts", dict.fromkeys(TASKS, 76.25), **different)
    row = released(sheet_of(store, "diffaug", 1))["[7]"]
    assert not any(cell.ours for cell in row.cells)


def test_a_checkpoint_fills_the_columns_that_it_was_released_for(
    store: MadeStore, evaluate: Evaluate
) -> None:
    """DiffCSE's Table 3 has a column of STS-B dev and one of transfer dev."""
    evaluate(TUNED, "transfer-senteval", {}, dev={"transfer-senteval-dev": 85.95})
    evaluate(TUNED, "sts", {}, dev={"stsb-dev": 1.0})
    evaluate(DIFFCSE, "sts", {}, dev={"stsb-dev": 84.56})
    sheet = sheet_of(store, "diffcse", 3)
    rows = released(sheet)
    assert rows["[3]"].lines == [["DiffCSE [3]", "theirs", "–", "84.56", ""]]
    assert rows["[4]"].lines == [["DiffCSE [4]", "theirs", "–", "", "85.95"]]
    command = f"harness eval {SIMCSE} --pooling cls --suite sts,transfer-senteval"
    assert notes(sheet)["[2]"].endswith(f"to evaluate it: {command}")


def test_only_the_suites_that_lack_are_named(store: MadeStore, evaluate: Evaluate) -> None:
    """D2CSE's Table 4 printed numbers of this very checkpoint."""
    evaluate(DIFFCSE, "retrieval", {"recall@1": 89.69, "recall@3": 97.42, "recall@5": 98.97})
    sheet = sheet_of(store, "d2cse", 4)
    mark = next(mark for mark, note in notes(sheet).items() if note.startswith(DIFFCSE))
    assert released(sheet)[mark].lines[0][2:] == ["–", "89.69", "97.42", "98.97", ""]
    assert notes(sheet)[mark].endswith(f"harness eval {DIFFCSE} --pooling cls --suite sts")


@pytest.mark.parametrize("paper", ["clsr", "d2cse", "dcpcse", "diffaug", "diffcse"])
def test_a_table_has_the_checkpoints_of_its_own_systems_alone(paper: str, store: MadeStore) -> None:
    """And none where a column is of other trials than those of the row."""
    for name in load_paper(paper).numbers.values():
        compared = store.compared(paper, int(name.removeprefix("table")))
        systems = {(row.system, row.setting, str(row.encoder)) for row in compared.table.rows}
        published = (row.cells[0].published.row for row in compared.released)
        assert {(row.system, row.setting, row.encoder) for row in published} <= systems
        if name in ("table7", "table8", "table12", "table14") and paper == "diffcse":
            assert not compared.released


def test_neither_a_sweep_nor_strict_asks_for_a_checkpoint(store: MadeStore) -> None:
    compared = store.compared("diffcse", 1)
    assert not lacking_suites([compared])
    theirs = {row.address for row in compared.released}
    assert len(theirs) == 4
    missing = failures([sheet_of(store, "diffcse", 1)], None)
    assert missing
    assert not {text.rpartition(".")[0] for text in missing} & theirs


def test_the_formats_have_the_checkpoints(store: MadeStore, evaluate: Evaluate) -> None:
    evaluate(SIMCSE, "sts", dict.fromkeys(TASKS, 76.25))
    sheets = [sheet_of(store, "diffaug", 1)]
    (made,) = json.loads(rendered(sheets, "json", 140))
    rows = {row["origin"]: row for row in made["records"] if row["group"] == HEADING}
    assert [*rows] == [SIMCSE, SUPERVISED, PROMPTBERT, DIFFCSE]
    there, missing = rows[SIMCSE], rows[DIFFCSE]
    assert (there["encoder"], there["origin"], there["mean"]) == (SIMCSE, SIMCSE, 76.25)
    assert (there["published"], there["delta"], there["best"]) == (None, None, None)
    assert missing["command"] == f"harness eval {DIFFCSE} --pooling cls --suite sts"
    for kind in ("markdown", "latex", "csv"):
        assert rendered(sheets, kind, 140).decode().count(HEADING) >= 1


def test_a_cell_of_a_checkpoint_is_shown_with_its_command(
    store: MadeStore, evaluate: Evaluate
) -> None:
    evaluate(SIMCSE, "sts", dict.fromkeys(TASKS, 76.25))
    sheet = sheet_of(store, "diffaug", 1)
    there, *_, missing = (row.address for row in released(sheet).values())
    lines = "\n".join(cell_facts(f"{there}.avg", None, store))
    assert "theirs: 76.25 (1 trial)" in lines
    assert f"again: harness eval {SIMCSE} --pooling cls --suite sts" in lines
    lines = "\n".join(cell_facts(f"{missing}.avg", None, store))
    assert f"theirs: not evaluated yet; to evaluate it: harness eval {DIFFCSE}" in lines
