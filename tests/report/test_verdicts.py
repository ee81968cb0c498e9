"""The verdict on a reproduced table, from trials with known scores."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from harness.plugin import registry
from harness.report.paper_cells import Comparer
from harness.report.published import load_paper
from harness.report.reproduction import SETUP_COLUMNS, VERDICT_COLUMNS, verdict_table
from harness.report.tables import Table
from harness.trials.store import Store

Add = Callable[..., str]
Row = dict[str, str]


@pytest.fixture
def add_joint(add_trial: Add) -> Callable[..., str]:
    """add_joint(score, changed): a trial of SimCSE joint, a row of DiffAug's Table 6."""

    def add(score: float, changed: dict[str, Any] | None = None, **different: Any) -> str:
        encoder = different.get("encoder", "bert-base-uncased")
        values = {"setting": "semisup", "schedule": "joint", "encoder": encoder} | (changed or {})
        config = registry.load("simcse").config_type(**values)
        made = {"setting": "semisup", "configuration": config.deciding(), "device": "a GPU"}
        return add_trial(score=score, **made | different)

    return add


def verdict(store: Store, encoder: str | None = None) -> Table:
    trials = store.read(SETUP_COLUMNS).table
    table = Comparer(trials, encoder).table(load_paper("diffaug"), "table6")
    return verdict_table(table, trials)


def row(sheet: Table, label: str) -> Row:
    lines = [line for section in sheet.sections for line in section.lines]
    (found,) = (line for line in lines if line[0].startswith(label))
    return dict(zip(VERDICT_COLUMNS, map(str, found), strict=True))


def test_a_number_within_the_spread_agrees(store: Store, add_joint: Add) -> None:
    for seed, score in enumerate([77.0, 77.5, 78.0]):
        add_joint(score, seed=seed)
    found = row(verdict(store), "SimCSE joint")
    # t(2) = 4.3027; 4.3027 * 0.5 * sqrt(4/3) = 2.484; the published average is 77.73.
    # t = 0.23 / (0.5 * sqrt(4/3)) = 0.3984, and p of t(2) is 1 - t / sqrt(2 + t**2).
    assert found == {
        "row": "SimCSE joint (semisup)",
        "column": "Avg.",
        "n": "3",
        "ours": "77.50±0.50",
        "lowest": "77.00",
        "highest": "78.00",
        "95 % of runs": "75.02 to 79.98",
        "published": "77.73",
        "p": "0.729",
        "verdict": "agrees",
    }


def test_a_number_far_away_differs(store: Store, add_joint: Add) -> None:
    for seed, score in enumerate([70.0, 70.5, 71.0]):
        add_joint(score, seed=seed)
    found = row(verdict(store), "SimCSE joint")
    assert found["verdict"] == "differs"
    assert float(found["p"]) < 0.05


def test_one_run_has_no_interval(store: Store, add_joint: Add) -> None:
    add_joint(77.0)
    found = row(verdict(store), "SimCSE joint")
    assert (found["ours"], found["95 % of runs"], found["p"]) == ("77.00", "", "")
    assert found["verdict"] == "one run"


def test_rows_that_cannot_be_compared(store: Store, add_joint: Add) -> None:
    add_joint(77.0, seed=0, protocol=1)
    add_joint(77.2, seed=1, protocol=1)
    sheet = verdict(store)
    found = row(sheet, "SimCSE joint")
    assert (found["p"], found["verdict"]) == ("", "another protocol")
    assert row(sheet, "SimCSE sup-unsup")["verdict"] == "not run"
    assert "Of 9 published numbers: another protocol: 1, not run: 8." in sheet.notes


def test_another_encoder_gives_no_verdict(store: Store, add_joint: Add) -> None:
    for seed, score in enumerate([60.0, 61.0]):
        add_joint(score, seed=seed, encoder="tiny-bert")
    assert row(verdict(store), "SimCSE joint")["verdict"] == "not run"
    sheet = verdict(store, "tiny-bert")
    found = row(sheet, "SimCSE joint")
    assert (found["ours"], found["p"], found["verdict"]) == ("60.50±0.71", "", "on tiny-bert")
    assert any("encoder tiny-bert (paper: bert-base-uncased)" in note for note in sheet.notes)


def test_the_set_up_and_what_differs_are_named(store: Store, add_joint: Add) -> None:
    versions = {"harness": "0.1.0", "torch": "2.9.0"}
    changed = {"max_steps": 100, "temperature": 0.1}
    add_joint(77.0, changed, seed=0, versions=versions, precision="bf16", commit="abc")
    add_joint(77.5, changed, seed=1, versions=versions, precision="bf16", commit="abc")
    notes = verdict(store).notes
    assert "Device: a GPU" in notes
    assert "Versions: harness 0.1.0, torch 2.9.0" in notes
    assert "Precision: bf16" in notes
    assert "Commit: abc" in notes
    assert (
        "Set-up of every row: max_steps 100 (paper: none); temperature 0.1 (paper: 0.05); 100 steps"
        in notes
    )


def test_several_devices_are_counted(store: Store, add_joint: Add) -> None:
    for seed, device in enumerate(["cpu (x86_64)", "a GPU", "a GPU"]):
        add_joint(77.0 + seed, seed=seed, device=device)
    assert "Device: a GPU (2 trials); cpu (x86_64) (1 trial)" in verdict(store).notes


def test_what_is_published_differs_in_nothing(store: Store, add_joint: Add) -> None:
    add_joint(77.0, steps=None)
    assert "Set-up of every row: as published" in verdict(store).notes


def test_the_verdict_as_data(store: Store, add_joint: Add) -> None:
    add_joint(77.0)
    records = verdict(store).records
    assert records.column_names == list(VERDICT_COLUMNS)
    assert records.num_rows == 9
    assert json.dumps(records.to_pylist())
