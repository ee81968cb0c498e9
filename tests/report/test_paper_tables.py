"""`harness table --paper`: published numbers with our numbers below them."""

from pathlib import Path
from typing import Any

import pytest

import harness
from harness.cli.list import list_ as listed
from harness.errors import UserError
from harness.report.coverage import lacking
from harness.report.matching import wanted_for
from harness.report.paper import load_systems
from harness.report.papers import load_paper
from harness.report.tables import Table
from harness.targets.options import SweepOptions
from tests.report.conftest import MadeStore, lines_of

TRANSFER_TUNED = {
    "objective": "detection", "edit": "replace", "edited": "same", "contrastive": True,
    "head": "batchnorm", "learning_rate": 2e-6, "masking_ratio": 0.15,
    "replaced_token_weight": 0.05,
}  # fmt: skip
METHODS = ("d2cse", "pooling", "simcse")


def sheet_of(store: MadeStore, paper: str, number: int = 1, **options: Any) -> Table:
    return store.paper(paper, number, methods=METHODS, **options)


@pytest.mark.parametrize(
    ("of_the_trial", "asked", "matches"),
    [
        ("bert-base-uncased@v1", None, True),
        (f"bert-base-uncased@{'a' * 40}", None, True),
        ("bert-base-uncased@refs/pr/1", "bert-base-uncased@refs/pr/1", True),
        ("bert-base-uncased@v1", "bert-base-uncased@v2", False),
        ("bert-base-uncased", "bert-base-uncased@v2", False),
        (f"bert-base-uncased@v1@{'a' * 32}", None, False),  # a trial has trained it
    ],
)
def test_a_revision_of_the_encoder_is_the_encoder(
    of_the_trial: str, asked: str | None, matches: bool, store: MadeStore
) -> None:
    """Who asks for a revision gets this one alone."""
    store.trial(score=70.0, encoder=of_the_trial)
    lines = [line[1] for line in lines_of(sheet_of(store, "diffaug", encoder=asked), "SimCSE")]
    assert lines == (["published", "ours", "Δ"] if matches else ["published"])


def test_a_misspelt_encoder_is_not_silent(
    store: MadeStore, capsys: pytest.CaptureFixture[str]
) -> None:
    store.trial(encoder="bert-base-uncased@v1")
    for right in ("bert-base-uncased", "bert-base-uncased@v1", None):
        notes = sheet_of(store, "diffaug", encoder=right).notes
        assert not any(note.startswith("No trial") for note in notes)
    base = "bert-base-uncased"
    for wrong, nearest in (("brt-base-uncased", base), (f"{base}@v2", f"{base}@v1")):
        sentence = f'No trial of the store is on {wrong}; did you mean "{nearest}"?'
        assert sentence in sheet_of(store, "diffaug", encoder=wrong).notes
        assert sentence in str(harness.table(store.folder, paper="diffaug", encoder=Path(wrong)))
        listed("papers", ["diffaug"], wrong, str(store.folder))
        assert capsys.readouterr().out.splitlines()[-1] == sentence


def test_the_best_dev_group_is_chosen_though_its_test_is_worse(store: MadeStore) -> None:
    store.trial({"learning_rate": 1e-5}, dev={"stsb-dev": 81.0}, score=70.0)
    store.trial({"learning_rate": 3e-5}, dev={"stsb-dev": 80.0}, score=90.0)
    sheet = sheet_of(store, "diffaug")
    assert lines_of(sheet, "SimCSE")[1][3:] == ["70.00"] * 8
    groups = "simcse unsup bert-base-uncased: 2 groups of comparable"
    assert any(note.startswith(groups) for note in sheet.notes)


def test_columns_can_be_different_runs(store: MadeStore) -> None:
    pooled = {"method": "pooling", "steps": 0, "configuration": {"pooling": "mean"}}
    store.trial(dev={"stsb-dev": 59.0}, dev_before=59.0, **pooled)
    _, ours, delta = lines_of(sheet_of(store, "clsr"), "BERT-base")
    assert ours == ["", "ours", "–", "59.00", "", ""]
    assert delta == ["", "Δ", "", "-0.32≠", "", ""]


def test_a_row_is_whole_when_all_that_the_paper_prints_is_there(store: MadeStore) -> None:
    """DiffAug's Table 2 prints nothing for supervised methods without labels."""
    for fraction in (0.01, 0.1, 1.0):
        for method, score in (("simcse", 50.0), ("promptbert", 80.0)):
            for seed in range(3):
                values = {"label_fraction": fraction}
                store.trial(values, score + seed, method=method, setting="sup")
    rows = sheet_of(store, "diffaug", 2).sections[1].rows
    assert {row.names[0].partition(" [")[0]: [cell.best for cell in row.cells] for row in rows} == {
        "SimCSE": [False] * 4, "PromptBERT": [False, True, True, True],
        "DiffAug (ours)": [False] * 4,
    }  # fmt: skip


def test_dev_scores_of_an_ablation_are_ranked(store: MadeStore) -> None:
    """DiffCSE's Table 3, whose two columns are two runs."""
    tuned = {**TRANSFER_TUNED, "masking_ratio": 0.3, "replaced_token_weight": 0.005}
    for contrastive, dev in ((True, 85.0), (False, 55.0)):
        for shift in (0.0, 0.5):
            values = {**tuned, "contrastive": contrastive, "learning_rate": 7e-6}
            store.trial(values, method="diffcse", dev={"stsb-dev": dev + shift})
            values = {**TRANSFER_TUNED, "contrastive": contrastive}
            key = store.trial(values, method="diffcse", dev={"stsb-dev": 20.0})
            found = {"dev": {"transfer-senteval-dev": dev + shift}, "method": "diffcse"}
            store.evaluation("transfer-senteval", {}, key, values, **found)
    rows = [row for row in sheet_of(store, "diffcse", 3).rows if row.whose == "ours"]
    best = {row.names[0].partition(" [")[0]: [cell.best for cell in row.cells] for row in rows}
    assert best.pop("DiffCSE") == [True, True]
    assert not any(mark for marks in best.values() for mark in marks)


def test_one_line_says_how_a_table_is_filled(store: MadeStore) -> None:
    sheet = sheet_of(store, "diffaug", folder="results/trials")
    commands = [note for note in sheet.notes if "harness sweep" in note]
    assert commands == ["To fill: harness sweep --paper diffaug --table 1"]
    assert "Not run by the command: there is no method promptbert: PromptBERT" in sheet.notes
    assert [line[1] for line in lines_of(sheet, "PromptBERT")] == ["published", "no method"]


@pytest.mark.parametrize(
    ("paper", "table", "changed", "sentence"),
    [
        ("diffaug", "table1", {"variant": "new"}, 'bert-cls does not list the variant "new"'),
        ("diffcse", "table2", {"system": "diffcse", "encoder": "bert-large-uncased"},
         "diffcse has no learning_rate for bert-large-uncased"),
    ],
)  # fmt: skip
def test_a_row_needs_what_its_run_lists(
    paper: str, table: str, changed: dict[str, str], sentence: str
) -> None:
    rows = load_paper(paper).tables[table].rows
    row = next(each for each in rows if each.system == changed.get("system", each.system))
    with pytest.raises(UserError, match=sentence):
        wanted_for(load_systems(), f"{paper}.{table}", row.model_copy(update=changed))


# What a published table still lacks, by the trials of a store.


def missing(store: MadeStore, paper: str, number: int, *, seeds: int = 3) -> list[str]:
    """Runs that the table lacks, as text."""
    return [str(wanted) for wanted in lacking(store.compared(paper, number), seeds, 5)]


def joint(**values: Any) -> dict[str, Any]:
    """Values that differ in a trial of Table 6 of DiffAug."""
    return {"setting": "semisup", "configuration": {"schedule": "joint", **values}}


def test_an_empty_store_lacks_every_run_once(store: MadeStore) -> None:
    runs = missing(store, "diffaug", 6)
    assert len(runs) == len(set(runs)) == 9
    assert runs[3] == "simcse semisup bert-base-uncased schedule=joint"
    runs = missing(store, "diffaug", 2)
    assert "simcse unsup bert-base-uncased" in runs, "its column without labels"
    assert "diffaug unsup bert-base-uncased" not in runs
    # DiffCSE's Table 1 has SimCSE twice, and systems that no method here makes.
    runs = missing(store, "diffcse", 1)
    assert runs.count("simcse unsup bert-base-uncased") == 1
    assert not any("cmlm" in each for each in runs)


def test_a_cell_with_enough_seeds_is_filled(store: MadeStore) -> None:
    for number in range(2):
        store.trial(seed=number, **joint())
    assert "simcse semisup bert-base-uncased schedule=joint" in missing(store, "diffaug", 6)
    store.trial(seed=2, **joint())
    found = missing(store, "diffaug", 6)
    assert "simcse semisup bert-base-uncased schedule=joint" not in found
    assert len(found) == 8
    assert len(missing(store, "diffaug", 6, seeds=4)) == 9


@pytest.mark.slow
def test_a_share_of_the_labels_needs_every_subset(store: MadeStore) -> None:
    wanted = "simcse semisup bert-base-uncased label_fraction=0.01 schedule=joint"
    for subset in range(5):
        for seed in range(3):
            assert wanted in missing(store, "diffaug", 2)
            share = {"label_fraction": 0.01, "subset": subset}
            store.trial(key=f"{subset}{seed}" * 16, seed=seed, **joint(**share))
    assert wanted not in missing(store, "diffaug", 2)


def test_what_is_not_trained_again(store: MadeStore) -> None:
    """One trial is enough where nothing trains, and a trial may only lack a suite."""
    store.trial({"pooling": "cls"}, method="pooling", steps=0)
    for seed in range(3):
        store.trial(seed=seed)
    found = missing(store, "diffaug", 1)
    assert "pooling unsup bert-base-uncased pooling=cls" not in found
    assert "pooling unsup bert-base-uncased pooling=mean" in found
    assert "simcse unsup bert-base-uncased" not in missing(store, "diffcse", 2)


# The numbers of DCPCSE's second version, PromCSE, as tables beside those of the paper.


def test_its_tables_are_no_tables_of_the_paper() -> None:
    """They are printed and filled by their numbers; the cost of the paper is that of its own."""
    paper = load_paper("dcpcse")
    assert paper.fillable == [1, 2]
    assert list(paper.numbers) == [str(number) for number in range(1, 9)]
    for number in range(5, 9):
        [origin] = {row.origin for row in paper.tables[f"table{number}"].rows}
        assert "2203.06875v2 (Findings of EMNLP 2022, PromCSE), which is not this paper" in origin


def test_supervised_rows_have_the_values_of_the_second_version(tmp_path: Path) -> None:
    searches = SweepOptions(paper="dcpcse", table=5, store=tmp_path).searches(lambda _: None)
    found = [search.config.deciding() for search in searches]
    fields = ("encoder", "batch_size", "learning_rate", "prompt_length", "epochs", "hinge_weight")
    assert {tuple(each[name] for name in fields) for each in found if each["setting"] == "sup"} == {
        ("bert-base-uncased", 256, 0.01, 12, 10, 0.0),
        ("roberta-base", 512, 0.01, 10, 10, 0.0),
        ("roberta-large", 512, 0.005, 10, 10, 0.0),
    }


def test_trials_with_the_hinge_loss_fill_no_row_without_it(store: MadeStore) -> None:
    hinge = {"prompts": "deep", "hinge_weight": 10.0}
    store.trial(hinge, 90.0, method="dcpcse", setting="sup", dev={"stsb-dev": 99.0})
    store.trial({"prompts": "deep"}, 70.0, method="dcpcse", setting="sup")  # from before the field
    compared = store.compared("dcpcse", 1)
    means = {cell.ours.mean for cell in compared.cells if cell.ours}
    assert means == {70.0}
