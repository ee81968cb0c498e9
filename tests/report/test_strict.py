"""`harness table --strict`: a reproduction as a job of CI, both ways."""

from collections.abc import Callable, Sequence

import pytest
import typer

from harness.cli.table import table
from harness.errors import UserError
from harness.report import paper_tables as hyperparameter_tables
from harness.report.matching import Commands
from harness.report.paper_cells import Comparer
from harness.report.paper_tables import paper_tables
from harness.report.published import load_paper
from harness.report.quantities import PAPER_COLUMNS
from harness.report.tables import failures
from harness.trials.record_files import no_rows
from harness.trials.store import Store

AddTrial = Callable[..., str]

TUNED = {"head": "batchnorm", "masking_ratio": 0.3, "replaced_token_weight": 0.005}
TASKS = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr", "avg")


@pytest.fixture
def reproduce(add_trial: AddTrial) -> Callable[..., None]:
    """reproduce(shifts): a trial of every row of DiffAug's Table 1 for each shift of its scores."""
    compared = Comparer(no_rows(PAPER_COLUMNS)).table(load_paper("diffaug"), "table1")

    def add(shifts: Sequence[float], leave_out: int = 0) -> None:
        rows = [row for _, section in compared.sections for row in section if row.cells[0].wanted]
        for row in rows[leave_out:]:
            wanted = row.cells[0].wanted
            for shift in shifts if wanted.method != "pooling" else (0.0,):
                numbers = [each.published.number + shift for each in row.cells]
                add_trial(
                    {**dict(wanted.defaults), **dict(wanted.configuration)},
                    method=wanted.method,
                    setting=wanted.setting,
                    encoder=wanted.encoder,
                    test=dict(zip(TASKS, numbers, strict=True)),
                    steps=0 if wanted.method == "pooling" else 100,
                )

    return add


def strict(store: Store, **options: object) -> int:
    """The exit code of `harness table --paper diffaug --table 1 --strict`."""
    try:
        table(paper="diffaug", number=1, store=str(store.folder), strict=True, **options)
    except typer.Exit as ended:
        return ended.exit_code
    return 0


@pytest.mark.slow
def test_a_reproduction_succeeds(store: Store, reproduce: Callable[..., None]) -> None:
    reproduce([-0.5, 0.0, 0.4])
    assert strict(store) == 0
    assert strict(store, tolerance=0.04) == 0


@pytest.mark.slow
def test_a_difference_fails(
    store: Store, reproduce: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    reproduce([2.0, 2.1, 2.2])
    assert strict(store) == 1
    assert "differs by +2.10, more than the spread of its seeds" in capsys.readouterr().err
    assert strict(store, tolerance=2.0) == 1
    assert "differs by +2.10, more than 2" in capsys.readouterr().err
    assert strict(store, tolerance=2.1) == 0


def test_a_missing_row_fails(
    store: Store, reproduce: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    reproduce([0.0], leave_out=1)
    assert strict(store, tolerance=1.0) == 1
    printed = capsys.readouterr()
    assert "--strict: 8 failures: diffaug.1." in printed.err
    assert ".sts12 is missing;" in printed.err
    assert printed.err.endswith("; and 3 more\n")
    assert "Table 1" in printed.out, "the table is printed all the same"


def test_one_seed_has_no_spread_to_judge_by(
    store: Store, reproduce: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    reproduce([0.0])
    assert strict(store) == 1
    assert "has one seed and so no spread" in capsys.readouterr().err


def test_another_protocol_fails(
    store: Store, add_trial: AddTrial, capsys: pytest.CaptureFixture[str]
) -> None:
    add_trial(protocol=1)
    with pytest.raises(typer.Exit):
        table(paper="diffaug", number=1, store=str(store.folder), strict=True)
    assert "missing" in capsys.readouterr().err
    with pytest.raises(typer.Exit):
        table(store=str(store.folder), strict=True)
    assert "1.dev was measured by another protocol" in capsys.readouterr().err


def test_a_table_of_a_store(store: Store, add_trial: AddTrial) -> None:
    with pytest.raises(typer.Exit):
        table(store=str(store.folder), strict=True)
    add_trial()
    table(store=str(store.folder), strict=True)
    add_trial({"learning_rate": 1e-4}, test={"stsb": 70.0})
    with pytest.raises(typer.Exit):
        table(store=str(store.folder), strict=True)


@pytest.mark.parametrize("different", [False, True])
def test_defaults_must_be_the_published(
    store: Store,
    different: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """DCPCSE's Table 3; such a table needs no trial."""
    if different:
        values = {"batch_size": 64, "learning_rate": 0.03}
        monkeypatch.setattr(hyperparameter_tables, "published_values", lambda _: values)
        with pytest.raises(typer.Exit):
            table(paper="dcpcse", number=3, store=str(store.folder), strict=True)
        said = capsys.readouterr().err
        assert "dcpcse.3 Batch size, bert-base-uncased: the default is 64, not 256" in said
    else:
        table(paper="dcpcse", number=3, store=str(store.folder), strict=True)


def test_a_sentence_that_is_missing_fails(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        table(paper="diffcse", number=9, store=str(store.folder), strict=True)
    said = capsys.readouterr().err
    assert "18 failures: diffcse.9 SimCSE-BERT base, query: you can do it, too., rank 1 is" in said


def test_a_row_that_needs_input_counts_when_it_is_filled(store: Store, add_trial: AddTrial) -> None:
    """DiffCSE's Table 3 on running text, which nothing here can run by a command."""
    values = {"objective": "detection", "edit": "replace", "edited": "next", "contrastive": True}
    for _ in range(2):
        add_trial({**values, **TUNED}, method="diffcse", dev={"stsb-dev": 20.0})
    commands = Commands(["simcse", "diffcse"], store.folder)
    found = failures(paper_tables(store.read(), "diffcse", commands, "3"), tolerance=None)
    assert [each for each in found if "differs by -" in each]


def test_a_tolerance_needs_the_encoder_of_the_paper(store: Store) -> None:
    options = {"paper": "diffaug", "strict": True, "tolerance": 1.0, "encoder": "mini-bert"}
    with pytest.raises(UserError, match="there are none with --encoder mini-bert"):
        table(store=str(store.folder), **options)


def test_a_tolerance_needs_published_numbers(store: Store) -> None:
    for options in ({"strict": True}, {"paper": "diffaug"}):
        with pytest.raises(UserError, match="--tolerance needs --strict and --paper"):
            table(store=str(store.folder), tolerance=1.0, **options)
