"""A paper of one's own: its folder stands where the five papers have a name."""

import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from harness.data.hub import EMBEDDED
from harness.report.papers import load_paper
from harness.trials.store import Store
from tests.checkout import example
from tests.cli.conftest import Shown, check_sentence, sets
from tests.sweeping import write_few_pairs

PAPER = """\
title: Mine
tables:
  table1:
    about: a rehearsal
    metric: spearman x100 on test
    columns: [dev, graded]
    groups:
      - name: BERT tiny
        rows:
          - {label: A, setting: unsup, encoder: tiny-bert, origin: "quoted:A", values: [27, 33.10]}
          - {label: SimCSE, system: simcse, setting: unsup, encoder: tiny-bert, origin: "quoted:S",
             values: [26, 36.2]}
          - {label: Ours, system: ours, setting: unsup, encoder: tiny-bert, origin: this paper}
systems:
  simcse:
    method: simcse
    configuration: &short {suite: graded, sentences: graded-sentences, max_steps: 2}
  ours: {method: ./own.py, configuration: {<<: *short, learning_rate: 1.0e-3}}
facts:
  table1:
    columns: {dev: {metric: graded-dev}}
"""


PaperFile = Callable[..., Path]
TABLE = ("--paper", "mine", "--table", 1)


@pytest.fixture
def paper(harness: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PaperFile:
    """paper(old, new): the paper above, in `mine` of the working folder, with a text replaced."""
    monkeypatch.chdir(tmp_path)
    harness("new", "plugin")
    Path("mine").mkdir()
    Path("plugin/__init__.py").rename("mine/own.py")

    def write(old: str = "", new: str = "") -> Path:
        assert old in PAPER
        path = Path("mine/paper.yaml")
        path.write_text(PAPER.replace(old, new, 1) if old else PAPER, encoding="utf-8")
        return path

    return write


def records(shown: Shown, *arguments: object) -> dict[tuple[str, str], dict[str, Any]]:
    """(row, column) -> the record of `harness table --format json`."""
    rows = json.loads(shown("table", *arguments, "--format", "json"))[0]["records"]
    return {(row["label"], row["column"]): row for row in rows}


@pytest.mark.slow
def test_a_new_paper_works_at_once(
    harness: Any, shown: Shown, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands that are printed as the next ones are accepted as they stand."""
    monkeypatch.chdir(tmp_path)
    out = shown("new", "paper", "papers/mine")
    assert {each.name for each in Path("papers/mine").iterdir()} == {
        "paper.yaml", "space.yaml", "mine.py",
    }  # fmt: skip
    commands = [line.split()[1:] for line in out.splitlines() if line.startswith("  harn")]
    assert [words[0] for words in commands] == ["sweep", "table", "sweep"]
    for words in commands:
        plan = harness(*words, *(["--dry-run"] if words[0] == "sweep" else []))
        assert plan.code == 0, plan.err
    assert "\\begin{tabular}" in harness(*commands[1]).out
    listed = harness("list", "papers", "papers/mine").out.splitlines()
    assert [line.split()[:2] for line in listed[1:]] == [
        ["Table", "1"], ["Table", "2"], ["Figure", "1"],
    ]  # fmt: skip
    figure = shown("figure", "--paper", "papers/mine", "--figure", "1")
    lacking = "the store lacks temperature 0.02, 0.05, 0.1 of mine; run: "
    assert figure == f"{lacking}harness sweep --paper papers/mine --table 2\n"
    shown("report", "--paper", "papers/mine", "--out", "page")
    pages = [Path(f"page/data/table-{n}.js").read_text(encoding="utf-8") for n in (1, 2)]
    has_published = ['"compared":true' in each for each in pages]
    assert has_published == [True, False], "the reader can show published values where some are"
    assert harness("reproduce", "papers/mine", "--dry-run").code == 0
    assert harness("report", "--paper", "papers/mine", "--out", "page").code == 0
    assert harness("plan", "--paper", "papers/mine", "--table", "2").code == 0
    again = harness("new", "paper", "papers/mine")
    assert (again.code, "exists already" in again.err) == (2, True)


def test_published_rows_stand_beside_a_row_of_ours_alone(
    harness: Any, shown: Shown, paper: PaperFile
) -> None:
    paper()
    out = shown("table", "--paper", "mine", "--table", 1)
    lines = [line.split() for line in out.splitlines()]
    assert ["1", "A", "[1]", "published", "27", "33.10"] in lines  # with every digit
    assert ["3", "Ours", "[3]", "ours", "0"] in lines
    assert "To fill: harness sweep --paper mine --table 1" in out
    assert "Quoted only, nothing is run for them: A\n" in out
    assert lines[lines.index(["1", "A", "[1]", "published", "27", "33.10"]) + 1][1] == "SimCSE"
    by_file = harness("table", "--paper", "mine/paper.yaml", "--table", 1)
    assert "To fill: harness sweep --paper mine/paper.yaml --table 1" in by_file.out
    strict = harness("table", "--paper", "mine", "--strict")
    assert strict.code == 1
    missing = "4 failures: mine.1.2.dev is missing; mine.1.2.graded is missing; mine.1.3.dev is"
    assert missing in strict.err


@pytest.mark.slow
def test_a_table_of_ones_own_is_filled(
    harness: Any, shown: Shown, paper: PaperFile, tmp_path: Path
) -> None:
    """Its differences are those of the store's scores, and a second sweep runs nothing."""
    paper()
    words = [*TABLE, "--seeds", "0,1"]
    swept = shown("sweep", *words, "--local")
    assert "\n0 trials to run" in shown("sweep", *words, "--dry-run")
    assert "  harness table --paper mine --table 1\n" in swept
    assert (tmp_path / "results" / "tables" / "mine-table-1.parquet").is_file()
    stored = Store(tmp_path / "results/trials").read().records()
    mean = {
        method: sum(row.test["graded"] for row in stored if row.method == method) / 2
        for method in ("simcse", "own")
    }
    cells = records(shown, "--paper", "mine")
    assert cells["SimCSE", "graded"]["mean"] == pytest.approx(mean["simcse"])
    assert cells["SimCSE", "graded"]["delta"] == pytest.approx(mean["simcse"] - 36.2)
    assert cells["Ours", "graded"]["mean"] == pytest.approx(mean["own"])
    assert cells["Ours", "graded"]["delta"] is None
    assert cells["A", "graded"]["n"] == 0
    latex = shown("table", "--paper", "mine", "--format", "latex")
    assert r"A {[}1] & published &  & 27 & 33.10 \\" in latex
    assert r"SimCSE {[}2] & published &  & 26 & 36.2 \\" in latex
    assert rf"{mean['simcse']:.2f}$\pm$" in latex
    assert r"Ours {[}3] & ours & 2 &" in latex
    cell = shown("show", "mine.1.3.graded")
    assert f"ours: {mean['own']:.2f}" in cell
    assert "difference" not in cell
    assert str(tmp_path / "mine" / "own.py") in cell
    shown("report", "--paper", "mine", "--out", "page")
    verdict = harness("reproduce", "mine", "--table", 1, "--seeds", "0,1", "--local")
    assert "Of 4 published numbers:" in verdict.out
    assert "not published" in verdict.out


def test_columns_that_signs_alone_tell_apart_have_cells_of_their_own(
    shown: Shown, paper: PaperFile
) -> None:
    headings = ("1.0", "10", "-1", "1", "τ", "λ")
    row = "{label: A, setting: unsup, encoder: tiny-bert, origin: a, values: [1, 2, 3, 4, 5, 6]}"
    table = (
        f"{{about: a, metric: dev, columns: [{', '.join(headings)}], "
        f"groups: [{{name: B, rows: [{row}]}}]}}"
    )
    content = f"title: M\ntables: {{table1: {table}}}\nfacts: {{table1: {{metric: graded-dev}}}}\n"
    paper().write_text(content, encoding="utf-8")
    for number, heading in enumerate(headings, 1):
        cell = shown("show", f"mine.1.1.{heading}")
        assert f"A [1], {heading}\npublished: {number}\n" in cell


@pytest.mark.slow
def test_a_row_without_its_variant_has_the_value_of_its_own(shown: Shown, paper: PaperFile) -> None:
    """Though trials of the variant are better on dev, or were run first."""
    path = paper("learning_rate: 1.0e-3}}", "learning_rate: 1.0e-6}, variants: {quick: "
                 "{learning_rate: 1.0e-3}}}")  # fmt: skip
    row, text = "{label: Ours, system: ours, ", path.read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if row in line)
    variant = line.replace(row, "{label: Quick, system: ours, variant: quick, ")
    path.write_text(text.replace(line, f"{line}\n{variant}"), encoding="utf-8")
    shown("sweep", "mine/own.py", *TABLE, "--seeds", 0, "--local")
    stored = Store("results/trials").read().records()
    rates = {row.configuration["learning_rate"]: row.test["graded"] for row in stored}
    cells = records(shown, "--paper", "mine")
    assert cells["Ours", "graded"]["mean"] == rates[1e-6]
    assert cells["Quick", "graded"]["mean"] == rates[1e-3]
    assert rates[1e-6] != rates[1e-3]


@pytest.mark.slow
def test_a_trial_of_ones_own_method_is_measured_by_the_suite_of_a_column(
    shown: Shown, paper: PaperFile, tmp_path: Path
) -> None:
    """A row without a suite takes a trial of another one. Unpublished columns have two decimals."""
    paper("ours: {method: ./own.py, configuration: {<<: *short, learning_rate: 1.0e-3}}",
          "ours: {method: ./own.py, configuration: {max_steps: 2}}")  # fmt: skip
    values = sets(suite=write_few_pairs(tmp_path), max_steps=2, sentences="graded-sentences")
    shown("run", "mine/own.py", "--seed", 0, "--encoder", "tiny-bert", *values)
    measured = shown("sweep", "mine/own.py", *TABLE, "--seeds", 0, "--local")
    assert "Trials of the store to measure: 1 with graded" in measured
    mean = records(shown, "--paper", "mine")["Ours", "graded"]["mean"]
    assert mean is not None
    assert f"{mean:.2f}" in shown("table", "--paper", "mine")


def test_the_command_of_a_number_runs(shown: Shown, paper: PaperFile) -> None:
    """The command of a method that no shipped space has is that of the table."""
    paper()
    commands = records(shown, "--paper", "mine")
    assert "search_spaces/unsup.yaml" in commands["SimCSE", "graded"]["command"]
    words = shlex.split(commands["Ours", "graded"]["command"])
    assert words[3:] == ["--paper", "mine", "--table", "1"]
    planned = shown("plan", *words[2:], "--encoder", "tiny-bert", "--set", "temperature=0.1")
    assert "temperature=0.1" in planned
    assert "3 trials to run" in planned


RELEASED = """\
released:
  - {system: simcse, setting: unsup, encoder: tiny-bert, checkpoint: authors/released, pooling: cls}
"""


@pytest.mark.slow
def test_a_released_checkpoint_is_evaluated_as_it_is(
    harness: Any, shown: Shown, paper: PaperFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint of 2021 has pickled weights, which a verb makes safetensors of."""
    paper("systems:\n", RELEASED + "systems:\n")
    folder = tmp_path / "hub" / "models" / "authors" / "released"
    shutil.copytree(EMBEDDED / "models" / "tiny-bert", folder)
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save({name: value * 1.1 for name, value in weights.items()}, folder / "pytorch_model.bin")
    monkeypatch.setenv("HARNESS_HUB", str(tmp_path / "hub"))
    command = "harness eval authors/released --pooling cls --suite graded"
    printed = shown("table", *TABLE)
    assert f"[4] authors/released, cls pooling; to evaluate it: {command}\n" in printed
    assert ["4", "SimCSE", "[4]", "theirs", "0"] in map(str.split, printed.splitlines())
    refused = harness(*command.split()[1:])
    assert (refused.code, "harness convert" in refused.err) == (2, True)
    shown("convert", "authors/released")
    shown(*command.split()[1:])
    [stored] = Store(tmp_path / "results/trials").read().records()
    dev, test = f"{stored.dev['graded-dev']:.0f}", f"{stored.test['graded']:.2f}"
    printed = shown("table", *TABLE)
    row = ["4", "SimCSE", "[4]", "theirs", "–", dev, test]
    assert row in map(str.split, printed.splitlines())
    assert "[4] authors/released, cls pooling\n" in printed
    latex = shown("table", *TABLE, "--format", "latex")
    assert rf"SimCSE {{[}}4] & theirs & – & {dev} & {test} \\" in latex
    assert f"theirs: {test}" in shown("show", "mine.1.4.graded")
    shown("report", "--paper", "mine", "--out", "page")
    assert test in (tmp_path / "page" / "data" / "table-1.js").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        *(("systems:\n", RELEASED.replace(old, new) + "systems:\n", sentence)
            for old, new, sentence in (
                ("system: simcse", "system: simcs", 'line 15: released.0.system: there is no '
                 'system "simcs"; did you mean "simcse"?'),
                ("encoder: tiny-bert", "encoder: bert", "line 15: released.0: no row of the paper "
                 "has simcse unsup bert, beside which it stands"),
                ("pooling: cls", "pooling: clz", "line 15: released.0.pooling"),
                ("pooling: cls", "suites: [stz]", 'released.0.suites: there is no suite "stz"; '
                 'did you mean "sts"?'),
            )
        ),
        ("system: simcse", "system: simcs", 'line 11: tables.table1.groups.0.rows.1: there is no '
         'system "simcs", which table1 has; did you mean "simcse"?'),
        ("[26, 36.2]", "[26]", 'line 3: tables.table1: row "SimCSE" does not have 2 values, one '
         "for each column, but 1"),
        ("[26, 36.2]", '[26, "36.2"]', "line 11: tables.table1.groups.0.rows.1: a number is "
         'expected in values, or null, and not "36.2"'),
        ("[26, 36.2]", "[26, .nan]", "tables.table1.groups.0.rows.1.values.1"),
        ("method: simcse", "method: simcze", 'line 16: systems.simcse.method: unknown method '
         '"simcze"; did you mean "simcse"?'),
        ("./own.py", "./ovn.py", 'systems.ours.method: unknown method "./ovn.py"; did you mean '
         '"./own.py"?'),
        ("learning_rate", "learnin_rate", 'method own has no hyperparameter "learnin_rate"; did '
         'you mean "learning_rate"?'),
        ("learning_rate: 1.0e-3", "learning_rate: -1", "line 13: tables.table1.groups.0.rows.2: "
         "own: learning_rate = -1: Input should be greater than 0"),
        ("label: Ours", "lable: Ours", "line 13: tables.table1.groups.0.rows.2.lable: unknown key; "
         'did you mean "label"?'),
        ("tables:", "tabels:", 'line 2: tabels: unknown key; did you mean "tables"?'),
        ("dev, graded", "dev, gradet", 'line 6: tables.table1.columns.1: no suite has a score with '
         'the heading "gradet", and facts.table1.columns names no metric for it; did you mean '
         '"graded"?'),
        ("dev, graded", "dev, dev", 'line 3: tables.table1: 2 columns have the heading "dev"'),
        ("graded-dev", "gradet-dev", 'there is no metric or quantity "gradet-dev"; did you mean '
         '"graded-dev"?'),
        ("columns: {dev", "columns: {def", 'facts.table1.columns.def: there is no column "def"; '
         'did you mean "dev"?'),
        ("facts:\n  table1", "facts:\n  tabel1", 'there is no table "tabel1"; did you mean '
         '"table1"?'),
        ("  table1:\n    about", "  main:\n    about", "there is no table"),
        ("title: Mine", "title: Mine\npaper: mine", "line 2: paper: the path of the file names"),
        (", origin: this paper", "", 'table1: "Ours" needs a setting, an encoder and an origin'),
        ("title: Mine", "title: [", "not valid YAML"),
        ("title: Mine", "title: &a [*a]", "not valid YAML"),
        ("systems:", "figures: {figure1: {about: a, table: tabel1, axis: b}}\nsystems:",
         'line 14: figures.figure1.table: there is no table "tabel1"; did you mean "table1"?'),
        ("systems:", "figures: {figure1: {about: a, table: table1, axis: b}}\nsystems:",
         'figures.figure1: facts.table1.columns gives "dev" no b that is a number'),
        ("systems:", "figures: {figur1: {about: a, table: table1, axis: b}}\nsystems:",
         "figures.figur1: figures have the names figure1, figure2, ..."),
        ("{dev: {metric: graded-dev}}", "{dev: {metric: graded-dev, configuration: "
         "{temperature: 1}}, graded: {configuration: {temperature: 2}}}\n"
         "figures: {figure1: {about: a, table: table1, axis: temperature}}",
         "figures.figure1: all columns of the table of a figure show one score"),
        ("learning_rate: 1.0e-3}}", "learning_rate: 1.0e-3}, variants: {hot: {temperature: 1}}}",
         "systems.ours.variants.hot.temperature: the rows of ours without a variant need a "
         "temperature, too; give it under configuration, or, where it is the default of the "
         "method, under defaults"),
        ("learning_rate: 1.0e-3", "encoder_dropout: {trained_by: simcse}",
         "systems.ours.configuration.encoder_dropout: trained_by is for search spaces; name the "
         "trained encoder here, as ENCODER@KEY with the key of its trial"),
        ("system: ours", "system: ours, variant: big", 'the system ours does not list the variant '
         '"big"'),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_line(
    old: str, new: str, sentence: str, harness: Any, paper: PaperFile
) -> None:
    paper(old, new)
    for verb in (("table", "--paper", "mine"), ("sweep", "--paper", "mine", "--table", 1)):
        check_sentence(harness(*verb), "Error: mine/paper.yaml", sentence)


def test_what_is_not_there_is_told(harness: Any, paper: PaperFile) -> None:
    """Also what is wrong with a whole table, and a method with the name of a shipped one."""
    paper()
    Path("empty").mkdir()
    for words, sentence in (
        ("table --paper mien", 'of a paper "mien"; did you mean "mine"?'),
        ("reproduce mien", 'of a paper "mien"; did you mean "mine"?'),
        ("report --out page --paper mien", 'did you mean "mine"?'),
        ("table --paper mine --table 2", "mine has no Table 2"),
        ("sweep --paper mine --table 2", "nothing to run for Table 2 of mine"),
        ("figure --paper mine --figure 1", "mine has no figure1; `figures` of its file"),
        ("list papers mien", 'of a paper "mien"; did you mean "mine"?'),
        ("table --paper empty", "empty is no paper: it has no paper.yaml"),
        ("table --paper no.yaml", "there is no such file: no.yaml"),
        ("show mine.1.4.graded", 'there is no row "mine.1.4"; did you mean'),
        ("show mine.1.3.gradet", 'row mine.1.3 has no column "gradet"'),
    ):
        check_sentence(harness(*words.split()), sentence)
    for tables, sentence in (
        ("{}", "line 2: tables: a paper has at least one table, called table1"),
        (
            "{table1: {about: a, metric: m, columns: [], groups: []}}",
            "tables.table1: a table has columns, and groups with rows",
        ),
        (
            "{table_1: {about: a, metric: m, columns: [graded], groups: [{name: a, rows: "
            "[{label: a, setting: unsup, encoder: e, origin: o, values: [1]}]}]}}",
            "tables.table_1: tables have the names table1, table2, ...",
        ),
    ):
        paper().write_text(f"title: Mine\ntables: {tables}\n", encoding="utf-8")
        check_sentence(harness("table", "--paper", "mine"), sentence)
    Path("mine/own.py").rename("mine/simcse.py")
    paper("./own.py", "./simcse.py")
    sentence = "systems.ours.method: harness has a method simcse"
    check_sentence(harness("table", "--paper", "mine"), sentence)


def test_a_name_of_the_five_papers_means_them(shown: Shown, paper: PaperFile) -> None:
    """A folder with such a name has a path: ./diffaug. The paper of the page is one."""
    path = paper()
    Path("diffaug").mkdir()
    path.rename("diffaug/paper.yaml")
    assert load_paper("diffaug").title != "Mine"
    Path("mine/own.py").rename("diffaug/own.py")
    assert load_paper("./diffaug").title == "Mine"
    paper().write_text(example("docs/own-paper.md", "yaml"), encoding="utf-8")
    Path("diffaug/own.py").rename("mine/mine.py")
    out = shown("table", "--paper", "mine")
    assert "Quoted only, nothing is run for them: Someone's method\n" in out
