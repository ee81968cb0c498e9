"""Every verb does what its help text says."""

import re
import shlex
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from harness.trials.record import Record
from harness.trials.store import Store
from tests.cli.conftest import Harness, Shown, SpaceFile, Swept, check_sentence, sets
from tests.cli.test_shipped_spaces import CELLS
from tests.trials.test_store import record

SHIPPED_SPACES = (
    "decoders", "fractions", "large", "promcse", "quickstart", "semisup", "sup", "tpe", "transfer",
    "unsup",
)  # fmt: skip
SMALL = ["--encoder", "tiny-bert", *sets(suite="graded", max_steps=2, batch_size=8)]


@pytest.fixture
def plugin(tmp_path: Path, write_plugin: Callable[..., Path]) -> SpaceFile:
    """plugin(old, new): the plugin `trained`, with one text replaced."""

    def write(old: str = "", new: str = "") -> Path:
        path = write_plugin(tmp_path / "toy.py", "trained")
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new) if old else text, encoding="utf-8")
        return path

    return write


def records(store: Path) -> list[Record]:
    return Store(store).read().records()


def again(out: str) -> list[str]:
    """The words of the command after `again:`, as a shell splits them, without `harness`."""
    line = next(line for line in out.splitlines() if line.startswith("again: harness "))
    return shlex.split(line)[2:]


def test_lists(shown: Shown, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of what is in the working folder; a shipped space is listed once in the checkout."""

    def listed(kind: str) -> dict[str, str]:
        return dict(line.split(maxsplit=1) for line in shown("list", kind).splitlines())

    assert [*listed("spaces")] == [*SHIPPED_SPACES, *CELLS]
    assert {"clsr", "d2cse", "dcpcse", "diffaug", "diffcse"} <= {*listed("papers")}
    monkeypatch.chdir(tmp_path)
    mine = tmp_path / "methods" / "mine" / "__init__.py"
    mine.parent.mkdir(parents=True)
    mine.write_text('"""My own.\n\nMore."""\n')
    lines = listed("methods")
    assert {"pooling", "simcse", "d2cse"} <= set(lines)
    assert "contrastive learning with dropout views" in lines["simcse"]
    assert lines["mine"] == "My own."
    (tmp_path / "search_spaces").mkdir()
    (tmp_path / "search_spaces" / "small.yaml").write_text("# A small one.\nsetting: unsup\n")
    lines = listed("spaces")
    assert [*lines] == [*SHIPPED_SPACES, *CELLS, "search_spaces/small.yaml"]
    assert lines["search_spaces/small.yaml"] == "A small one."
    assert lines["quickstart"].startswith("The embedded default")
    assert shown("list", "trials", "--store", tmp_path / "none") == ""
    assert not (tmp_path / "none").exists()


def test_a_shipped_space_is_found_by_name_and_a_file_goes_before_it(
    shown: Shown, harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quickstart").mkdir()  # a folder is not a search space
    for name in ("quickstart", "search_spaces/quickstart.yaml"):
        out = shown("plan", "simcse", name)
        assert "On tiny-bert:" in out
        assert "simcse unsup " in out
    (tmp_path / "quickstart").rmdir()
    (tmp_path / "quickstart").write_text("setting: mine\n")
    check_sentence(harness("plan", "simcse", "quickstart"), "quickstart, line 1: setting")


def test_plan_and_dry_run_say_the_same_and_write_nothing(
    harness: Harness, space: SpaceFile, store: Path
) -> None:
    planned = harness("plan", space(), "--store", store)
    assert planned == harness("sweep", space(), "--store", store, "--dry-run")
    assert planned.code == 0
    assert "learning_rate: 1e-4, 5e-4" in planned.out
    assert "4 trials to run" in planned.out
    assert not store.exists()


def test_plan_resolves_values_in_the_order_of_precedence(shown: Shown, space: SpaceFile) -> None:
    """A plan of trials that may end early has two bounds."""
    path = space("    grid:", "    set: {max_steps: 3}\n    grid:")
    for options, value in ((["--set", "max_steps=4"], "max_steps=4"), ([], "max_steps=3")):
        out = shown("plan", path, "--store", "none", *options)
        assert value in out
        assert "batch_size=8" in out  # from the file
        assert "temperature=" not in out  # it has the published value
    words = ["plan", space("simcse:", "consert:"), "--store", "none"]
    early = sets(patience=1, evaluation_interval=1, max_steps=8)
    assert re.search(r"trials to run, \d+ to \d+ steps", shown(*words, *early))
    assert re.search(r"trials to run, \d+ steps", shown(*words, *sets(patience="null")))


def test_plan_of_a_share_of_the_labels(shown: Shown, space: SpaceFile) -> None:
    """The plan has seeds and subsets; an epoch over half of the labels has half as many steps."""
    path = space(
        "setting: unsup", "setting: sup", "sentences: graded-sentences",
        "triplets: graded-triplets", "max_steps: 2", "epochs: 1", "batch_size: 8", "batch_size: 2",
    )  # fmt: skip
    words = ["plan", path, "--store", "none", "--subsets", "2,5", "--seeds", "7"]
    whole, share = shown(*words), shown(*words, "--set", "label_fraction=0.5")
    assert "seeds: 7" in whole
    assert "subsets:" not in whole  # all labels are used
    assert "3 trials to run" in whole
    assert "subsets: 2, 5" in share
    assert "4 trials to run" in share
    # Behind the steps: the time of each, as `5s-9s`, and GiB.
    steps, half = (
        int(next(line for line in out.splitlines() if " final " in line).split()[-3])
        for out in (whole, share)
    )
    assert steps > 20
    assert half == pytest.approx(steps / 2, rel=0.02)


@pytest.mark.slow
def test_plan_of_a_whole_space_fits_a_screen(shown: Shown) -> None:
    """Ten methods on up to four encoders each; none of these is on this machine."""
    lines = shown("plan", "unsup", "--store", "none").splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("On "))
    table, sentences = lines[first : lines.index("")], lines[lines.index("") + 1 :]
    assert sum(1 + len(line) // 100 for line in sentences) <= 9
    assert len(table) <= 37
    assert max(map(len, table)) <= 100
    on_all = next(line for line in table if "dcpcse unsup" in line).split()
    assert on_all[-5] == "48"  # twelve configurations on four encoders


def test_plan_says_once_where_missing_models_are_looked_for(shown: Shown, space: SpaceFile) -> None:
    encoders = ["--encoder", "first-bert", "--encoder", "second-bert"]
    out = shown("plan", space(), *encoders, "--store", "none")
    assert out.count("Set HARNESS_HUB to a folder that has them") == 1
    assert 'Not here yet: model "first-bert"' in out
    assert out.count('model "first-bert"') == out.count('model "second-bert"') == 1
    assert "On first-bert, second-bert:" in out


@pytest.mark.slow
def test_the_command_of_a_run_runs_it_again(
    shown: Shown, plugin: SpaceFile, store: Path, tmp_path: Path
) -> None:
    """The plugin has a path, the labels a subset, and a value has spaces."""
    settings = sets(sentences="graded-triplets", label_fraction=0.5, subset=3)
    out = shown("run", plugin(), *SMALL, *settings, "--store", store)
    [row] = records(store)
    assert (row.label_fraction, row.subset) == (0.5, 3)
    assert "seed 0 subset 3 of 50 %" in shown("list", "trials", "--store", store)
    corpus = tmp_path / "my sentences.txt"
    corpus.write_text("the cat sleeps\na dog runs\n" * 8)
    spaces = shown("run", "simcse", *SMALL, *sets(sentences=corpus), "--store", store)
    for command in (again(out), again(spaces)):
        assert shown(*command, "--store", store).startswith("Already in the store:")


@pytest.mark.slow
def test_run_that_fails_is_stored_with_its_reason_and_tried_again(
    shown: Shown, harness: Harness, plugin: SpaceFile, store: Path
) -> None:
    path = plugin()
    settings = sets(sentences="graded-sentences", fault="raise")
    arguments = ["run", path, *SMALL, *settings, "--store", store]
    assert harness(*arguments).code == 1
    [row] = records(store)
    reason = str(row.reason).splitlines()[0]
    assert (row.status, reason) == ("failed", "ValueError: a planted fault")
    assert (row.dev, row.test) == ({}, {})
    assert "ValueError: a planted fault" in shown("list", "trials", "--store", store)
    path.with_suffix(".repaired").touch()
    shown(*arguments)
    [now] = records(store)
    assert (now.status, now.reason, now.key) == ("finished", None, row.key)


LOSS = "info_nce(first, second, temperature=self.config.temperature)"
EMBED = "return (self.words(batch.input_ids) * mask).sum(1) / mask.sum(1)"
FAULTS = [
    (LOSS, f"{LOSS}.item()", "not a scalar tensor but float"),
    (LOSS, f"{LOSS}.detach()", 'the loss "contrastive" has no gradient'),
    (LOSS, f"{LOSS} / 0", 'the loss "contrastive" is inf'),
    ('{"contrastive": info', '{"contrast": info', "losses() must return ['contrastive']"),
    (EMBED, f"{EMBED} / 0", "not finite"),
    (EMBED, f"return ({EMBED[7:]}).mean(0)", "embed() must return (rows, hidden)"),
    (EMBED, "return batch.nothing", "AttributeError"),
    ('getattr(config, "width", 8)', "-1", "__init__ raises RuntimeError"),
    ("        return [\n", "        raise ValueError('no')\n        return [\n", "ValueError: no"),
    ("config.sentences}", '"no-such-corpus"}', 'unknown corpus "no-such-corpus"'),
]
"""Faults that tests/plugin/test_faults.py does not have"""


@pytest.mark.slow
@pytest.mark.parametrize(("old", "new", "sentence"), FAULTS)
def test_check_finds(
    old: str, new: str, sentence: str, harness: Harness, plugin: SpaceFile
) -> None:
    answer = harness("check", plugin(old, new))
    assert answer.code == 1
    assert re.match(r"wrong: .*toy\.py:\d+: ", answer.out)
    assert len(answer.out.splitlines()) == len(set(answer.out.splitlines()))
    assert sentence in answer.out


def test_table_and_list_of_the_store(swept: Swept, shown: Shown) -> None:
    """The table is that of the sweep, with the chosen value; trials have the searched values."""
    output = swept.answer.out
    out = shown("table", "--store", swept.store)
    head, _, row = [line.split() for line in out.splitlines()[:3]]
    assert head[:6] == ["#", "method", "setting", "encoder", "configuration", "n"]
    assert (row[:4], row[5]) == (["1", "simcse", "unsup", "tiny-bert"], "2")
    assert re.fullmatch(r"learning_rate=0\.000[15]", row[4])
    assert out in output
    lines = shown("list", "trials", "--store", swept.store).splitlines()
    keys = Store(swept.store).finished_keys()
    assert {line.split()[0] for line in lines} == {key[:10] for key in keys}
    assert sorted(line.split()[2] for line in lines) == ["final", "final", "search", "search"]
    labels = {line.partition("simcse ")[2] for line in lines}
    assert len(labels) == 4
    assert all("learning_rate=" in label and "temperature=" not in label for label in labels)
    assert "simcse unsup tiny-bert learning_rate=0.0001 seed 42: " in output
    assert re.search(r"\[4/4\] simcse unsup tiny-bert learning_rate=\S+ seed [01]: dev", output)


def test_plan_knows_what_the_store_has_and_how_long_it_took(
    swept: Swept, shown: Shown, tmp_path: Path
) -> None:
    out = shown("plan", swept.space, "--store", swept.store)
    search = next(line for line in out.splitlines() if "round 1" in line).split()
    assert search[search.index("5e-4") + 1 :][:2] == ["2", "2"]  # trials, stored
    assert "\n0 trials to run" in out
    path = tmp_path / "more.yaml"
    path.write_text(swept.space.read_text().replace("5e-4]", "5e-4, 9e-4]"))
    out = shown("plan", path, "--store", swept.store)
    assert "Time (as the store's trials took): on this machine" in out
    assert "unknown" not in out


def test_show_prints_a_trial_whose_command_runs_again(
    swept: Swept, shown: Shown, tmp_path: Path
) -> None:
    row = next(row for row in records(swept.store) if row.role == "final")
    out = shown("show", row.key[:10], "--store", swept.store)
    for line in (
        f"key: {row.key}", "role: final", "  learning_rate: ", "  graded-dev: ", "  graded: ",
        "  torch: ", "history (stage, ", "  contrastive dev: ",
    ):  # fmt: skip
        assert f"\n{line}" in f"\n{out}"
    shown(*again(out), "--store", tmp_path / "again")
    [record] = records(tmp_path / "again")
    assert (record.key, record.dev, record.test) == (row.key, row.dev, row.test)


def test_a_sweep_leaves_its_table_with_each_score(swept: Swept) -> None:
    path = swept.store.parent / "tables" / "space.parquet"
    assert str(path) in swept.answer.out
    rows = {(row["split"], row["metric"]): row for row in pq.read_table(path).to_pylist()}
    finals = {row.key: row for row in records(swept.store) if row.role == "final"}
    assert set(rows) == {("dev_before", "graded-dev"), ("dev", "graded-dev"), ("test", "graded")}
    cell: dict[str, Any] = rows["test", "graded"]
    values = {row.seed: row.test["graded"] for row in finals.values()}
    assert {each["seed"]: each["value"] for each in cell["trials"]} == values
    assert {each["key"] for each in cell["trials"]} == finals.keys()
    assert cell["mean"] == pytest.approx(statistics.fmean(values.values()))
    assert cell["std"] == pytest.approx(statistics.stdev(values.values()))
    assert cell["n"] == 2


def test_the_next_commands_run(swept: Swept, shown: Shown) -> None:
    lines = swept.answer.out.partition("Next:\n")[2].splitlines()
    commands = [words for line in lines if (words := shlex.split(line, comments=True))]
    # There is one row, which nothing is compared with.
    verbs = ["harness table", "harness show", "harness list"]
    assert [" ".join(words[:2]) for words in commands] == verbs
    purposes = [line for line in lines if line.startswith("  # ")]
    assert len(purposes) == len(commands)
    assert all("simcse" in shown(*words) for _, *words in commands)
    finals = [row for row in records(swept.store) if row.role == "final"]
    assert commands[1][2] == max(finals, key=lambda row: row.dev["graded-dev"]).key[:10]


@pytest.mark.slow
def test_merge(harness: Harness, tmp_path: Path) -> None:
    one, two = Store(tmp_path / "one" / "trials"), Store(tmp_path / "two" / "trials")
    for store, row in ((one, record(1)), (two, record(1, steps=3)), (two, record(2))):
        store.write(row)
    (two.folder / f"{7:032x}.parquet").write_bytes(b"no Parquet")
    answer = harness("merge", two.folder, "--into", one.folder)
    assert answer.code == 1
    assert "1 new, 1 were there already" in answer.out
    differs = "steps is 10 here and 3 there"
    for part in ("has another result in", differs, f"not read: {7:032x}."):
        assert part in answer.err
    assert one.flat_file.is_file()
    for wrong, sentence in (
        (one.folder, "both merged and merged into"),
        (one.folder.parent / "none", "there is no store"),
    ):
        check_sentence(harness("merge", wrong, "--into", one.folder), sentence)
    statuses = {row.seed: row.status for row in one.read().records()}
    assert statuses == {1: "finished", 2: "finished"}
