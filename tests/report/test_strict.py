"""`harness table --strict`: a reproduction as a job of CI, both ways."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import typer

from harness.cli.table import table
from harness.errors import UserError
from harness.plugin import registry
from harness.report.coverage import SETUP_COLUMNS, VERDICT_COLUMNS, verdict_table
from harness.report.matching import Commands
from harness.report.paper_cells import Comparer
from harness.report.paper_tables import paper_tables
from harness.report.papers import load_paper
from harness.report.quantities import PAPER_COLUMNS
from harness.report.tables import Table, failures
from harness.trials.record_files import no_rows
from tests.report.conftest import TASKS, MadeStore

AddTrial = Callable[..., str]
Row = dict[str, str]

TUNED = {"head": "batchnorm", "masking_ratio": 0.3, "replaced_token_weight": 0.005}


@pytest.fixture
def reproduce(store: MadeStore) -> Callable[..., None]:
    """reproduce(shifts): a trial of every row of DiffAug's Table 1 for each shift of its scores."""
    compared = Comparer(no_rows(PAPER_COLUMNS)).table(load_paper("diffaug"), "table1")

    def add(shifts: Sequence[float], leave_out: int = 0) -> None:
        rows = [row for _, section in compared.sections for row in section if row.cells[0].wanted]
        for row in rows[leave_out:]:
            wanted = row.cells[0].wanted
            for shift in shifts if wanted.method != "pooling" else (0.0,):
                numbers = [each.number + shift for each in row.cells]
                store.trial(
                    {**dict(wanted.defaults), **dict(wanted.configuration)}, method=wanted.method,
                    setting=wanted.setting, encoder=wanted.encoder,
                    test=dict(zip(TASKS, numbers, strict=True)),
                    steps=0 if wanted.method == "pooling" else 100,
                )  # fmt: skip

    return add


Strict = Callable[..., str]


@pytest.fixture
def strict(store: MadeStore, capsys: pytest.CaptureFixture[str]) -> Strict:
    """strict(option=value, ...): what `--strict` says of DiffAug's Table 1; "" if it succeeds."""

    def run(**options: object) -> str:
        options = {"paper": "diffaug", "number": 1} | options
        try:
            table(store=str(store.folder), strict=True, **options)
        except typer.Exit as ended:
            code = ended.exit_code
        else:
            return ""
        printed = capsys.readouterr()
        assert code == 1
        assert "Table 1" in printed.out or options["number"] != 1, "it is printed all the same"
        return printed.err

    return run


@pytest.mark.slow
def test_a_reproduction_succeeds(strict: Strict, reproduce: Callable[..., None]) -> None:
    reproduce([-0.5, 0.0, 0.4])
    assert not strict()
    assert not strict(tolerance=0.04)


@pytest.mark.slow
def test_a_difference_fails_and_one_seed_has_no_spread_to_judge_by(
    strict: Strict, reproduce: Callable[..., None]
) -> None:
    reproduce([2.0])
    assert "has one seed and so no spread" in strict()
    reproduce([2.1, 2.2])
    assert "differs by +2.10, more than the spread of its seeds" in strict()
    assert "differs by +2.10, more than 2" in strict(tolerance=2.0)
    assert not strict(tolerance=2.1)


def test_a_missing_row_fails(strict: Strict, reproduce: Callable[..., None]) -> None:
    reproduce([0.0], leave_out=1)
    message = strict(tolerance=1.0)
    assert "--strict: 8 failures: diffaug.1." in message
    assert ".sts12 is missing;" in message
    assert message.endswith("; and 3 more\n")


def test_another_protocol_fails(store: MadeStore, strict: Strict) -> None:
    store.trial(protocol=1)
    assert "missing" in strict()
    assert "1.dev was measured by another protocol" in strict(paper=None, number=None)


def test_a_table_of_a_store(store: MadeStore, strict: Strict) -> None:
    assert strict(paper=None, number=None)
    store.trial()
    assert not strict(paper=None, number=None)
    store.trial({"learning_rate": 1e-4}, test={"stsb": 70.0})
    assert strict(paper=None, number=None)


OTHER_VALUES = """\
title: Mine
systems: {dcpcse: {method: dcpcse}}
facts:
  table1:
    columns:
      bert-base-uncased: {encoder: bert-base-uncased}
      roberta-base: {encoder: roberta-base}
tables:
  table1:
    about: chosen hyperparameters
    metric: hyperparameter
    columns: [bert-base-uncased, roberta-base]
    groups:
      - name: Unsupervised
        rows:
          - {label: Batch size, system: dcpcse, field: batch_size, setting: unsup, encoder: null,
             origin: this paper, values: [64, 64]}
          - {label: Learning rate, system: dcpcse, field: learning_rate, setting: unsup,
             encoder: null, origin: this paper, values: [0.03, 0.03]}
"""
"""A paper of one's own, whose first batch size is not that of DCPCSE's Table 3"""


def test_defaults_must_be_the_published(
    store: MadeStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """DCPCSE's Table 3, and the table of another paper; such a table needs no trial."""
    options = {"store": str(store.folder), "strict": True}
    table(paper="dcpcse", number=3, **options)
    (tmp_path / "paper.yaml").write_text(OTHER_VALUES, encoding="utf-8")
    capsys.readouterr()
    with pytest.raises(typer.Exit):
        table(paper=str(tmp_path), format="json", **options)
    said = capsys.readouterr()
    assert "1 failure: " in said.err
    assert ".1 Batch size, bert-base-uncased: the default is 256, not 64" in said.err
    records = json.loads(said.out)[0]["records"]
    assert [row["ours"] for row in records] == ["256", "64", "0.03", "0.03"]
    table(paper=str(tmp_path), **{**options, "strict": False})
    [line] = [each for each in capsys.readouterr().out.splitlines() if " ≠ " in each]
    assert line.split() == ["ours", "256", "≠", "64"]


def test_a_sentence_that_is_missing_fails(strict: Strict) -> None:
    said = strict(paper="diffcse", number=9)
    assert "18 failures: diffcse.9 SimCSE-BERT base, query: you can do it, too., rank 1 is" in said


def test_a_row_that_needs_input_counts_when_it_is_filled(store: MadeStore) -> None:
    """DiffCSE's Table 3 on running text, which nothing here can run by a command."""
    values = {"objective": "detection", "edit": "replace", "edited": "next", "contrastive": True}
    for _ in range(2):
        store.trial({**values, **TUNED}, method="diffcse", dev={"stsb-dev": 20.0})
    commands = Commands(["simcse", "diffcse"], store.folder)
    sentences = failures(
        paper_tables(store.read(), load_paper("diffcse"), commands, "3"), tolerance=None
    )
    assert [each for each in sentences if "differs by -" in each]


def test_a_tolerance_needs_published_numbers_on_their_encoder(store: MadeStore) -> None:
    for options in ({"strict": True}, {"paper": "diffaug"}):
        with pytest.raises(UserError, match="--tolerance needs --strict and --paper"):
            table(store=str(store.folder), tolerance=1.0, **options)
    options = {"paper": "diffaug", "strict": True, "tolerance": 1.0, "encoder": "mini-bert"}
    with pytest.raises(UserError, match="there are none with --encoder mini-bert"):
        table(store=str(store.folder), **options)


# The verdict on a reproduced table, from trials with known scores.


@pytest.fixture
def add_joint(store: MadeStore) -> Callable[..., str]:
    """add_joint(score, changed): a trial of SimCSE joint, a row of DiffAug's Table 6."""

    def add(score: float, changed: dict[str, Any] | None = None, **different: Any) -> str:
        encoder = different.get("encoder", "bert-base-uncased")
        values = {"setting": "semisup", "schedule": "joint", "encoder": encoder} | (changed or {})
        config = registry.load("simcse").config_type(**values)
        made = {"setting": "semisup", "configuration": config.deciding(), "device": "a GPU"}
        return store.trial(score=score, **made | different)

    return add


def verdict(store: MadeStore, encoder: str | None = None) -> Table:
    trials = store.read(SETUP_COLUMNS).table
    table = Comparer(trials, encoder).table(load_paper("diffaug"), "table6")
    return verdict_table(table, trials)


def row(sheet: Table, label: str) -> Row:
    lines = [line for section in sheet.sections for line in section.lines]
    (found,) = (line for line in lines if line[0].startswith(label))
    return dict(zip(VERDICT_COLUMNS, map(str, found), strict=True))


def test_a_number_within_the_spread_agrees(store: MadeStore, add_joint: AddTrial) -> None:
    for seed, score in enumerate([77.0, 77.5, 78.0]):
        add_joint(score, seed=seed)
    records = verdict(store).records
    assert (records.column_names, records.num_rows) == ([*VERDICT_COLUMNS], 9)
    # t(2) = 4.3027; 4.3027 * 0.5 * sqrt(4/3) = 2.484; the published average is 77.73.
    # t = 0.23 / (0.5 * sqrt(4/3)) = 0.3984, and p of t(2) is 1 - t / sqrt(2 + t**2).
    assert row(verdict(store), "SimCSE joint") == {
        "row": "SimCSE joint (semisup)", "column": "Avg.", "n": "3", "ours": "77.50±0.50",
        "lowest": "77.00", "highest": "78.00", "95 % of runs": "75.02 to 79.98",
        "published": "77.73", "p": "0.729", "verdict": "agrees",
    }  # fmt: skip


def test_a_number_far_away_differs_and_one_run_has_no_interval(
    store: MadeStore, add_joint: AddTrial
) -> None:
    add_joint(70.0)
    cells = row(verdict(store), "SimCSE joint")
    assert (cells["ours"], cells["95 % of runs"], cells["p"]) == ("70.00", "", "")
    assert cells["verdict"] == "one run"
    for seed, score in enumerate([70.5, 71.0], 1):
        add_joint(score, seed=seed)
    cells = row(verdict(store), "SimCSE joint")
    assert cells["verdict"] == "differs"
    assert float(cells["p"]) < 0.05


def test_rows_that_cannot_be_compared(store: MadeStore, add_joint: AddTrial) -> None:
    add_joint(77.0, seed=0, protocol=1)
    add_joint(77.2, seed=1, protocol=1)
    sheet = verdict(store)
    found = row(sheet, "SimCSE joint")
    assert (found["p"], found["verdict"]) == ("", "another protocol")
    assert row(sheet, "SimCSE sup-unsup")["verdict"] == "not run"
    assert "Of 9 published numbers: another protocol: 1, not run: 8." in sheet.notes


def test_another_encoder_gives_no_verdict(store: MadeStore, add_joint: AddTrial) -> None:
    for seed, score in enumerate([60.0, 61.0]):
        add_joint(score, seed=seed, encoder="tiny-bert")
    assert row(verdict(store), "SimCSE joint")["verdict"] == "not run"
    sheet = verdict(store, "tiny-bert")
    found = row(sheet, "SimCSE joint")
    assert (found["ours"], found["p"], found["verdict"]) == ("60.50±0.71", "", "on tiny-bert")
    assert any("encoder tiny-bert (paper: bert-base-uncased)" in note for note in sheet.notes)


def test_the_set_up_and_what_differs_are_named(store: MadeStore, add_joint: AddTrial) -> None:
    add_joint(77.0, steps=None)
    assert "Set-up of every row: as published" in verdict(store).notes
    made = {
        "versions": {"harness": "0.1.0", "torch": "2.9.0"},
        "precision": "bf16",
        "commit": "c0ffee123456+",
    }
    changed = {"max_steps": 100, "temperature": 0.1}
    for seed, device in enumerate(["cpu (x86_64)", "a GPU", "a GPU"]):
        dev = {"dev": {"stsb-dev": 90.0}, "device": device}
        add_joint(77.0 + seed, changed, seed=seed, **made, **dev)
    notes = verdict(store).notes
    for note in (
        "Device: a GPU (2 trials); cpu (x86_64) (1 trial)",
        "Precision: bf16",
        "Commit: c0ffee123456+",
        "Versions: harness 0.1.0, torch 2.9.0",
        "Set-up of every row: max_steps 100 (paper: none); temperature 0.1 (paper: 0.05); "
        "100 steps",
    ):
        assert note in notes


@pytest.mark.parametrize(("printed", "agrees"), [("54.8", True), ("54.81", False), ("55", True)])
def test_what_does_not_train_agrees_in_the_digits_that_are_printed(
    store: MadeStore, tmp_path: Path, printed: str, agrees: bool
) -> None:
    """Another row of the column has more digits."""
    row = "label: {}, system: bert-cls, setting: unsup, encoder: {}, origin: a, values: [{}]"
    rows = [row.format("A", "tiny-bert", printed), row.format("B", "mini-bert", "76.25")]
    (tmp_path / "paper.yaml").write_text(
        "title: Mine\ntables:\n  table1:\n    about: a\n    metric: spearman x100 on test\n"
        "    columns: [STS12]\n    groups:\n      - name: a\n        rows:\n"
        + "".join(f"          - {{{each}}}\n" for each in rows),
        encoding="utf-8",
    )
    store.trial({"pooling": "cls"}, 54.84, method="pooling", steps=0, encoder="tiny-bert")
    cell = store.compared(str(tmp_path), 1).cells[0]
    assert (cell.decimals, cell.agrees) == (2, agrees)
