"""`harness show CELL` and `harness show METHOD`."""

import shlex
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.cli.show import show
from harness.data.senteval import ARCHIVE, SIMCSE
from harness.errors import UserError
from harness.evaluation import suites
from harness.evaluation.catalogue import SuiteCard
from harness.plugin import registry
from harness.plugin.fields import RELEASED, described_fields
from harness.report.cell_facts import paper_cell, store_cell
from harness.report.matching import Commands
from harness.report.paper_tables import paper_tables
from harness.report.papers import load_paper
from harness.report.tables import address_name
from harness.report.terminal import address_note
from harness.trials.trial import Trial, describe
from tests.archives import write_archive
from tests.kits import forget
from tests.report.conftest import TRANSFER, MadeStore

Shown = Callable[..., list[str]]


@pytest.fixture
def shown(store: MadeStore, capsys: pytest.CaptureFixture[str]) -> Shown:
    """shown(name, encoder): the lines that `harness show` prints."""

    def lines(name: str, *encoder: str) -> list[str]:
        show(name, str(store.folder), *encoder)
        return capsys.readouterr().out.splitlines()

    return lines


@pytest.fixture
def two_sentences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The mirror has an STS-B test of one pair."""
    row = "genre\tfile\tyear\t1\t5.0\ta cat\ta dog\n"
    write_archive(tmp_path / "datasets" / SIMCSE / ARCHIVE, {"STS/STSBenchmark/sts-test.csv": row})
    monkeypatch.setenv("HARNESS_HUB", str(tmp_path))
    forget(suites)
    yield
    forget(suites)


def test_a_cell_leads_to_its_trials_and_their_command(store: MadeStore, shown: Shown) -> None:
    store.trial({"learning_rate": 1e-5}, 60.0)
    keys = [store.trial(score=score) for score in (74.0, 75.0, 76.0)]
    lines = shown("2.avg")
    assert lines[:5] == [
        "avg of simcse unsup bert-base-uncased",
        "ours: 75.00±1.00 (mean±sample std of 3 trials)",
        f"  {keys[0][:10]}  seed 1  74.0000",
        f"  {keys[1][:10]}  seed 2  75.0000",
        f"  {keys[2][:10]}  seed 3  76.0000",
    ]
    assert lines[5].startswith(
        "again (the first; the others differ in the seed): harness run simcse "
        "--encoder bert-base-uncased --seed 1"
    )


@pytest.mark.slow
def test_every_cell_of_a_table_has_its_address(store: MadeStore, shown: Shown) -> None:
    """Two suites with the same metrics, a method with one of them, and a third on two data."""
    for seed in range(4):
        key = store.trial(score=75.0, seed=seed)
        store.evaluation("transfer", dict.fromkeys(TRANSFER, 90.5), key, seed=seed)
        store.evaluation("transfer-senteval", dict.fromkeys(TRANSFER, 80.5), key, seed=seed)
        mine = {"suite_card": SuiteCard("mine", data=f"data-{seed % 2}").dumped()}
        store.evaluation("mine", {"x": 60.0 + seed % 2}, key, seed=seed, **mine)
        other = {"seed": seed, "method": "d2cse"}
        of = store.trial(score=70.0, **other)
        store.evaluation("transfer-senteval", dict.fromkeys(TRANSFER, 80.5), of, **other)
    tables = store.sheets()
    for sheet in tables:
        for row in sheet.rows:
            for metric, cell in zip(sheet.metrics, row.cells, strict=True):
                if cell.ours:
                    name = address_name(metric)
                    assert store_cell(tables, int(row.address), name)[1].ours == cell.ours
                    last, mean = f"{row.address}.{name}", cell.ours.mean
            assert shown(last)[1].startswith(f"ours: {mean:.2f}±0.00 (mean")
    assert store_cell(tables, 1, "mr")[1].ours.mean == 80.5, "d2cse has it of one suite"
    with pytest.raises(UserError, match='row 2 has no score "mr"; several suites have it'):
        store_cell(tables, 2, "mr")
    with pytest.raises(UserError, match="several suites have it: mine@data-0:x, mine@data-1:x"):
        store_cell(tables, 2, "x")


def test_a_column_is_named_as_it_is_printed_or_stored(store: MadeStore, shown: Shown) -> None:
    """And the line under a table names a cell that is there."""
    store.trial()
    for name in ("stsb", "STS-B", "sts-b"):
        assert shown(f"1.{name}")[0] == "stsb of simcse unsup bert-base-uncased"
    note = address_note(store.sheets(), 300)
    assert note.endswith(f": harness show 1.avg --store {store.folder}\n")
    assert shown("1.avg")


def test_label_subsets_are_named(store: MadeStore, shown: Shown) -> None:
    for subset in (0, 1):
        for seed in (0, 1):
            values = {"label_fraction": 0.01, "subset": subset}
            store.trial(values, 70.0 + subset, seed=seed, setting="sup")
    lines = shown("1.avg")
    assert [line.split()[1:5] for line in lines[2:6]] == [
        ["subset", subset, "seed", seed] for subset in "01" for seed in "01"
    ]
    assert lines[6].startswith("again (the first; the others differ in the seed and the subset)")


def test_a_score_of_another_suite_is_measured_again(store: MadeStore, shown: Shown) -> None:
    """The trial alone would not give it; and small numbers keep the digits of their table."""
    key = store.trial(suite="sts")
    store.evaluation("transfer-senteval", {"mr": 81.0}, of=key)
    store.evaluation("geometry", {"alignment": 0.0838, "uniformity": -1.5}, of=key)
    lines = shown("1.alignment")
    assert lines[1] == "ours: 0.0838 (1 trial)"
    run, measure = lines[-1].split(" && ")
    assert run.startswith("again: harness run simcse --encoder bert-base-uncased")
    assert measure == f"harness eval {key[:10]} --suite geometry --store {store.folder}"
    assert " && " not in shown("1.stsb")[-1]


def test_of_a_model_that_was_never_a_trial_the_right_suite_is_named(
    store: MadeStore, shown: Shown
) -> None:
    pooled = {"method": "pooling", "configuration": {"pooling": "mean"}, "steps": None, "seed": 0}
    for suite, metric in (("retrieval", "recall@1"), ("transfer-senteval", "mr")):
        store.evaluation(suite, {metric: 80.0}, of="f" * 32, **pooled)
    assert "--suite transfer-senteval " in shown("1.mr")[-1]
    assert "--suite retrieval " in shown("1.r@1")[-1]


COSINES = """\
title: Mine
systems: {mine: {method: pooling}}
facts: {table1: {metric: query-cosine}}
tables:
  table1:
    about: cosine similarity
    metric: cosine similarity
    query: a cat sleeps.
    columns: [A CAT SLEEPS., A cat weeps.]
    groups:
      - name: a
        rows:
          - {label: A, system: mine, setting: unsup, encoder: tiny-bert, origin: a,
             values: [0.9000, 0.9000]}
"""


@pytest.mark.slow
@pytest.mark.usefixtures("two_sentences")
def test_a_cosine_of_a_paper_is_asked_of_the_model(
    store: MadeStore, shown: Shown, tmp_path: Path
) -> None:
    """The model reads no capitals."""
    (tmp_path / "paper.yaml").write_text(COSINES, encoding="utf-8")
    trial = describe(Trial("pooling", {"encoder": "tiny-bert", "suite": "graded"}, 0, "final"))
    store.write(replace(trial, status="finished", steps=0, dev={"graded-dev": 50.0}))
    same, other = (shown(f"{tmp_path}.1.1.A {words}.") for words in ("CAT SLEEPS", "cat weeps"))
    assert same[-2:] == [
        "ours: 1.0000 (1 trial)",
        "asked of the model with the best dev score whose weights are kept",
    ]
    assert 0 < float(other[-2].split()[1]) < 1


@pytest.mark.parametrize("address", ["diffaug.5.1.x", "diffcse.9.1.top1"])
def test_a_table_without_scores_is_named(address: str, shown: Shown) -> None:
    paper, number, *_ = address.split(".")
    with pytest.raises(UserError, match=f"--paper {paper} --table {number}$"):
        shown(address)


def test_a_cell_of_a_paper(store: MadeStore, shown: Shown) -> None:
    for score in (75.0, 76.0, 77.0):
        store.trial(score=score)
    lines = shown("diffaug.1.5.avg")
    assert "Table 1" in lines[0]
    assert lines[1].startswith("SimCSE [")
    assert lines[2] == "published: 76.25"
    assert lines[3] == "difference: -0.25≈ (inside the 95 % prediction interval of the seeds)"
    assert lines[4] == "ours: 76.00±1.00 (mean±sample std of 3 trials)"
    assert "harness run simcse" in lines[-1]
    empty = shown("diffaug.1.13.avg")
    assert "to fill it: harness sweep --paper diffaug --table 1" in empty[-1]


def test_a_cell_on_another_encoder(store: MadeStore, shown: Shown) -> None:
    """The line under such a table leads to its cell."""
    store.trial(encoder="tiny-bert", score=61.0)
    sheet = store.paper("diffaug", 1, encoder="tiny-bert")
    words = shlex.split(address_note([sheet], 300).partition(": ")[2])
    options = ["--encoder", "tiny-bert", "--store", str(store.folder)]
    assert words == ["harness", "show", "diffaug.1.5.avg", *options]
    assert "ours: 61.00 (1 trial)" in "\n".join(shown(words[2], "tiny-bert"))
    assert "--table 1 --encoder tiny-bert" in shown("diffaug.1.13.avg", "tiny-bert")[-1]
    with pytest.raises(UserError, match="--encoder belongs to a cell of a paper"):
        shown("1.avg", "tiny-bert")


@pytest.mark.parametrize("paper", ["diffcse", "d2cse"])
def test_every_column_of_a_paper_has_an_address(store: MadeStore, paper: str) -> None:
    """Headings have points and blanks, such as `Avg. transfer` and 0.0001."""
    store.trial()
    sheets = paper_tables(store.read(), load_paper(paper), Commands(registry.names(), store.place))
    for sheet in sheets:
        for row in sheet.rows:
            for metric in sheet.metrics:
                found = paper_cell(sheets, row.address, address_name(metric))
                assert found[:3] == (sheet, row, metric)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("2.avg", "there is no row 2: the rows of `harness table` are 1 to 1"),
        ("1.avgg", 'row 1 has no score "avgg"; did you mean "avg"?'),
        ("1.", 'row 1 has no score ""'),
        ("difaug.1.3.avg", 'did you mean "diffaug"?'),
        ("diffaug.99.3.avg", "99"),
        ("diffaug.1.99.avg", 'there is no row "diffaug.1.99"; did you mean "diffaug.1.9"?'),
        ("diffaug.1.3.av", 'has no column "av"; did you mean "avg"?'),
        ("diffaug.1", "names no cell"),
        ("simcs", 'did you mean "simcse"?'),
    ],
)
def test_what_names_nothing_is_one_sentence(store: MadeStore, name: str, sentence: str) -> None:
    store.trial()
    with pytest.raises(UserError) as raised:
        show(name, str(store.folder))
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_method_has_every_hyperparameter_with_its_meaning(shown: Shown) -> None:
    for name in ("simcse", "diffaug"):
        text = " ".join(" ".join(shown(name)).split())
        for field in described_fields(registry.load(name).config_type):
            assert f"{field.name} (" in text
            assert field.meaning.replace("`", "") in text
            assert field.range in text
            for value in field.published:
                assert value.replace("`", "") in text
    lines = shown("simcse")
    start = lines.index("  learning_rate (float, above 0, default 3e-05)")
    assert lines[start + 1] == "      peak rate of the linear decay"
    assert lines[start + 2].startswith("      published: unsup, bert-large-uncased: 1e-05; ")
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("method", registry.names())
def test_accidents_of_released_code_stand_apart(method: str, shown: Shown) -> None:
    config, heading = registry.load(method).config_type, f"{RELEASED} (--set NAME=VALUE):"
    assert config.released <= config.model_fields.keys()
    lines = shown(method)
    assert (heading in lines) == bool(config.released)
    if config.released:
        apart = lines[lines.index(heading) + 1 :]
        apart = apart[: apart.index("")]
        names = {line.split()[0] for line in apart if line.startswith("  ") and line[2] != " "}
        assert names == config.released


@pytest.mark.parametrize(
    ("method", "field", "words"),
    [
        ("diffaug", "stage1_steps", "semisup, with auxiliary_weight=0: 2000"),
        ("diffaug", "accumulation", "sup, with label_fraction=0.5: 1"),
        ("dcpcse", "learning_rate", "with prompts=shallow: 0.001"),
        ("dcpcse", "batch_size", "with prompts=shallow: 256"),
        ("diffcse", "masking_ratio", "with edit=insert: 0.15"),
    ],
)
def test_a_default_that_depends_on_another_field_is_shown(
    method: str, field: str, words: str, shown: Shown
) -> None:
    text = " ".join(" ".join(shown(method)).split())
    own = text[text.index(f" {field} (") :]
    assert words in own[: own.index(" (", len(field) + 5) + 400]
