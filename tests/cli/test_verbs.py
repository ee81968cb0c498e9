"""Every verb does what its help text says."""

import os
import re
import shlex
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from harness.trials.store import Store
from tests.cli.conftest import sets

SHIPPED_SPACES = (
    "decoders",
    "fractions",
    "large",
    "promcse",
    "quickstart",
    "semisup",
    "sup",
    "tpe",
    "transfer",
    "unsup",
)
ABLATIONS = (
    "clsr-table2", "clsr-table4", "d2cse-table6", "dcpcse-figure2", "dcpcse-table2",
    "dcpcse-table6", "diffaug-figure3", "diffaug-figure4", "diffaug-figure5", "diffaug-table3",
    "diffaug-table4", "diffaug-table6", "diffaug-table8", "diffcse-table15", "diffcse-table3",
    "diffcse-table4", "diffcse-table5", "diffcse-table6", "diffcse-table7", "diffcse-table8",
)  # fmt: skip
"""The ablation tables and figures of the five papers"""
POOLING = ["pooling", "--encoder", "tiny-bert", "--set", "suite=graded"]
GOOD = """\
\"\"\"A bag of words.\"\"\"

import pydantic
import torch
from torch import Tensor, nn

from harness import plugin
from harness.plugin import Stage
from harness.losses.info_nce import info_nce


class Config(plugin.TrainingConfig):
    encoder: str = "tiny-bert"
    suite: str = "graded"
    sentences: str = "graded-sentences"
    precision: str = "fp32"
    width: int = 8


class Method(plugin.Method[Config]):
    @classmethod
    def corpora(cls, config):
        return {"contrastive": config.sentences}

    @classmethod
    def stages(cls, config):
        return [
            Stage(
                name="contrastive",
                trains={"words*": "learning_rate"},
                streams={"contrastive": config.batch_size},
                losses={"contrastive": 1.0},
                max_steps=config.max_steps,
            )
        ]

    def __init__(self, config, kit):
        super().__init__(config, kit)
        self.words = nn.Embedding(len(kit.tokenizer), config.width)
        self.still = nn.Parameter(torch.zeros(1))

    @property
    def longest(self):
        return 64

    def losses(self, batch, stage):
        vectors = self.embed(batch["contrastive"])
        first, second = (nn.functional.dropout(vectors, 0.1) for _ in range(2))
        loss = info_nce(first, second, temperature=self.config.temperature)
        return {"contrastive": loss}

    def embed(self, batch) -> Tensor:
        mask = batch.attention_mask[:, :, None].float()
        vectors = (self.words(batch.input_ids) * mask).sum(1) / mask.sum(1)
        return vectors
"""


@pytest.fixture
def plugin(tmp_path: Path) -> Callable[..., Path]:
    """plugin(old, new): the plugin above, with one text replaced."""

    def write(old: str = "", new: str = "") -> Path:
        assert old in GOOD
        path = tmp_path / "toy.py"
        path.write_text(GOOD.replace(old, new) if old else GOOD, encoding="utf-8")
        return path

    return write


def files(store: Path) -> dict[str, int]:
    """File name -> the time when it was written."""
    return {path.name: path.stat().st_mtime_ns for path in store.iterdir()}


def again(out: str) -> list[str]:
    """The words of the command after `again:`, as a shell splits them, without `harness`."""
    line = next(line for line in out.splitlines() if line.startswith("again: "))
    program, *arguments = shlex.split(line.removeprefix("again: "))
    assert program == "harness"
    return arguments


# Without a trial


def test_no_verb_shows_the_help(harness: Any) -> None:
    answer = harness()
    for verb in ("sweep", "run", "plan", "table", "show", "check", "new", "list"):
        assert verb in answer.out


def test_list_methods(harness: Any) -> None:
    answer = harness("list", "methods")
    assert answer.code == 0
    lines = {line.split()[0]: line for line in answer.out.splitlines()}
    assert {"pooling", "simcse", "d2cse"} <= set(lines)
    assert "contrastive learning with dropout views" in lines["simcse"]


def test_list_methods_names_one_here(
    harness: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "methods" / "mine").mkdir(parents=True)
    (tmp_path / "methods" / "mine" / "__init__.py").write_text('"""My own.\n\nMore."""\n')
    lines = [line.split(maxsplit=1) for line in harness("list", "methods").out.splitlines()]
    assert ["mine", "My own."] in lines


def test_list_spaces(harness: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "search_spaces").mkdir()
    (tmp_path / "search_spaces" / "small.yaml").write_text("# A small one.\nsetting: unsup\n")
    lines = [line.split(maxsplit=1) for line in harness("list", "spaces").out.splitlines()]
    assert lines[-1] == ["search_spaces/small.yaml", "A small one."]
    assert [name for name, _ in lines[:-1]] == [*SHIPPED_SPACES, *ABLATIONS]
    assert dict(lines)["quickstart"].startswith("The embedded default")


def test_a_shipped_space_is_listed_once_in_the_checkout(harness: Any) -> None:
    names = [line.split(maxsplit=1)[0] for line in harness("list", "spaces").out.splitlines()]
    assert names == [*SHIPPED_SPACES, *ABLATIONS]


@pytest.mark.parametrize("name", ["quickstart", "search_spaces/quickstart.yaml"])
def test_a_shipped_space_is_found_by_name(
    name: str, harness: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quickstart").mkdir()  # a folder is not a search space
    answer = harness("plan", "simcse", name)
    assert answer.code == 0, answer.err
    assert "On tiny-bert:" in answer.out
    assert "simcse unsup " in answer.out


def test_an_existing_file_goes_before_a_shipped_space(
    harness: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quickstart").write_text("setting: mine\n")
    answer = harness("plan", "simcse", "quickstart")
    assert answer.code == 2
    assert "quickstart, line 1: setting" in answer.err


def test_list_papers(harness: Any) -> None:
    names = [line.split()[0] for line in harness("list", "papers").out.splitlines()]
    assert {"clsr", "d2cse", "dcpcse", "diffaug", "diffcse"} <= set(names)


def test_only_papers_are_listed_with_an_encoder(harness: Any) -> None:
    answer = harness("list", "methods", "--encoder", "tiny-bert")
    assert answer.code == 2
    assert "methods are listed without --encoder" in answer.err


def test_list_trials_of_an_empty_store(harness: Any, tmp_path: Path) -> None:
    answer = harness("list", "trials", "--store", tmp_path / "none")
    assert (answer.code, answer.out) == (0, "")
    assert not (tmp_path / "none").exists()


def test_plan_and_dry_run_say_the_same_and_write_nothing(
    harness: Any, space: Callable[..., Path], tmp_path: Path
) -> None:
    store = tmp_path / "store"
    planned = harness("plan", space(), "--store", store)
    dry = harness("sweep", space(), "--store", store, "--dry-run")
    assert planned == dry
    assert planned.code == 0
    assert "learning_rate: 1e-4, 5e-4" in planned.out
    assert "4 trials to run" in planned.out
    assert not store.exists()


def test_plan_resolves_values_in_the_order_of_precedence(
    harness: Any, space: Callable[..., Path], tmp_path: Path
) -> None:
    path = space("    grid:", "    set: {max_steps: 3}\n    grid:")
    arguments = ["plan", path, "--store", tmp_path / "store"]
    for options, shown in ((["--set", "max_steps=4"], "max_steps=4"), ([], "max_steps=3")):
        out = harness(*arguments, *options).out
        assert shown in out
        assert "batch_size=8" in out  # from the file
        assert "temperature=" not in out  # it has the published value


def test_plan_of_trials_that_may_end_early_has_two_bounds(
    harness: Any, space: Callable[..., Path], tmp_path: Path
) -> None:
    path = space("simcse:", "consert:")
    early = ["--set", "patience=1", "--set", "evaluation_interval=1", "--set", "max_steps=8"]
    bounded = harness("plan", path, "--store", tmp_path / "store", *early)
    assert bounded.code == 0, bounded.err
    assert re.search(r"trials to run, \d+ to \d+ steps", bounded.out)
    exact = harness("plan", path, "--store", tmp_path / "store", "--set", "patience=null").out
    assert re.search(r"trials to run, \d+ steps", exact)


LABELLED = (
    "setting: unsup", "setting: sup", "sentences: graded-sentences", "triplets: graded-triplets",
)  # fmt: skip
"""Replacements in a space, after which it trains on labels"""


def test_plan_says_seeds_and_subsets(
    harness: Any, space: Callable[..., Path], tmp_path: Path
) -> None:
    path = space(*LABELLED)
    arguments = ["plan", path, "--store", tmp_path / "store", "--subsets", "2,5", "--seeds", "7"]
    whole = harness(*arguments).out
    assert "seeds: 7" in whole
    assert "subsets:" not in whole  # all labels are used
    assert "3 trials to run" in whole
    share = harness(*arguments, "--set", "label_fraction=0.5").out
    assert "subsets: 2, 5" in share
    assert "4 trials to run" in share


def test_plan_counts_the_updates_of_a_share(
    harness: Any, space: Callable[..., Path], tmp_path: Path
) -> None:
    """An epoch over half of the labels has half as many steps."""
    path = space(*LABELLED, "max_steps: 2", "epochs: 1", "batch_size: 8", "batch_size: 2")

    def steps(*options: str) -> int:
        out = harness("plan", path, "--store", tmp_path / "store", *options).out
        words = next(line for line in out.splitlines() if " final " in line).split()
        return int(words[-3])  # the last words are steps, the time of each, as `5s-9s`, and GiB

    whole = steps()
    assert whole > 20
    assert steps("--set", "label_fraction=0.5") == pytest.approx(whole / 2, abs=1)


def test_plan_names_what_is_not_here(
    harness: Any, space: Callable[..., Path], tmp_path: Path
) -> None:
    answer = harness("plan", space(), "--encoder", "tiny-brt", "--store", tmp_path / "store")
    assert answer.code == 0
    assert 'Not here yet: model "tiny-brt"' in answer.out


@pytest.mark.slow
def test_plan_of_a_whole_space_fits_a_screen(harness: Any, tmp_path: Path) -> None:
    """Ten methods on up to four encoders each; none of these is on this machine."""
    lines = harness("plan", "unsup", "--store", tmp_path / "store").out.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("On "))
    table, sentences = lines[first : lines.index("")], lines[lines.index("") + 1 :]
    assert sum(1 + len(line) // 100 for line in sentences) <= 9
    assert len(table) <= 37
    assert max(map(len, table)) <= 100
    on_all = next(line for line in table if "dcpcse unsup" in line).split()
    assert on_all[-5] == "48"  # twelve configurations on four encoders


def test_plan_says_once_where_missing_models_are_looked_for(
    harness: Any, space: Callable[..., Path], tmp_path: Path
) -> None:
    encoders = ["--encoder", "first-bert", "--encoder", "second-bert"]
    out = harness("plan", space(), *encoders, "--store", tmp_path / "store").out
    assert out.count("Set HARNESS_HUB to a folder that has them") == 1
    assert out.count('model "first-bert"') == out.count('model "second-bert"') == 1
    assert "On first-bert, second-bert:" in out


@pytest.mark.slow
def test_run_stores_one_record_and_runs_once(harness: Any, tmp_path: Path) -> None:
    store = tmp_path / "store"
    first = harness("run", *POOLING, "--seed", 3, "--store", store)
    assert first.code == 0, first.err
    written = files(store)
    [row] = Store(store).read().records()
    assert set(written) == {f"{row.key}.parquet"}
    assert (row.method, row.encoder, row.seed, row.role) == ("pooling", "tiny-bert", 3, "final")
    assert row.status == "finished"
    assert set(row.test) == {"graded"}
    second = harness("run", *POOLING, "--seed", 3, "--store", store)
    assert second.code == 0
    assert second.out.startswith("Already in the store:")
    assert files(store) == written
    harness("run", *POOLING, "--seed", 4, "--store", store)
    assert len(files(store)) == 2


@pytest.mark.slow
def test_run_takes_one_subset(harness: Any, plugin: Callable[..., Path], tmp_path: Path) -> None:
    settings = sets(sentences="graded-triplets", max_steps=2, batch_size=8)
    settings += sets(label_fraction=0.5, subset=3)
    answer = harness("run", plugin(), *settings, "--store", tmp_path / "store")
    assert answer.code == 0, answer.err
    [row] = Store(tmp_path / "store").read().records()
    assert (row.label_fraction, row.subset) == (0.5, 3)
    assert "seed 0 subset 3 of 50 %" in harness("list", "trials", "--store", tmp_path / "store").out
    assert harness(*again(answer.out), "--store", tmp_path / "store").out.startswith(
        "Already in the store:"
    )


@pytest.mark.slow
def test_run_that_fails_is_stored_with_its_reason_and_tried_again(
    harness: Any, plugin: Callable[..., Path], tmp_path: Path
) -> None:
    repaired, store = tmp_path / "repaired", tmp_path / "store"
    guard = (
        f"        if not __import__('pathlib').Path({str(repaired)!r}).exists():\n"
        f"            raise ValueError('odd')\n"
    )
    path = plugin("        first, second =", f"{guard}        first, second =")
    arguments = ["run", path, "--set", "max_steps=2", "--store", store]
    answer = harness(*arguments)
    assert answer.code == 1
    [row] = Store(store).read().records()
    assert (row.status, row.reason, row.dev, row.test) == ("failed", "ValueError: odd", {}, {})
    assert "ValueError: odd" in harness("list", "trials", "--store", store).out
    repaired.touch()
    assert harness(*arguments).code == 0
    [now] = Store(store).read().records()
    assert (now.status, now.reason, now.key) == ("finished", None, row.key)


@pytest.mark.slow
def test_run_whose_loss_is_not_finite_fails(
    harness: Any, plugin: Callable[..., Path], tmp_path: Path
) -> None:
    path = plugin('return {"contrastive": loss}', 'return {"contrastive": loss * float("nan")}')
    answer = harness("run", path, "--set", "max_steps=2", "--store", tmp_path / "store")
    assert answer.code == 1
    [row] = Store(tmp_path / "store").read().records()
    assert row.status == "failed"
    assert row.reason == 'the loss "contrastive" is nan in step 1 (stage "contrastive")'


@pytest.mark.slow
def test_again_of_a_plugin_that_has_a_path(
    harness: Any, plugin: Callable[..., Path], tmp_path: Path
) -> None:
    arguments = [plugin(), "--set", "max_steps=2", "--store", tmp_path / "store"]
    command = again(harness("run", *arguments).out)
    assert harness(*command, "--store", tmp_path / "store").out.startswith("Already in the store:")


@pytest.mark.slow
def test_again_of_values_with_spaces(harness: Any, tmp_path: Path) -> None:
    corpus, store = tmp_path / "my sentences.txt", tmp_path / "store"
    corpus.write_text("the cat sleeps\na dog runs\n" * 8)
    settings = sets(suite="graded", sentences=corpus, max_steps=1, batch_size=4, precision="fp32")
    command = again(
        harness("run", "simcse", "--encoder", "tiny-bert", *settings, "--store", store).out
    )
    assert harness(*command, "--store", store).out.startswith("Already in the store:")


@pytest.mark.slow
@pytest.mark.parametrize("like", [[], ["--like", "two-stage"]])
def test_new_then_check(like: list[str], harness: Any, tmp_path: Path) -> None:
    path = tmp_path / "methods" / "mine"
    answer = harness("new", path, *like)
    assert answer.code == 0
    assert f"harness check {path}" in answer.out
    checked = harness("check", path)
    assert (checked.code, checked.out) == (0, f"{path} keeps the contract.\n")


@pytest.mark.slow
def test_check_of_a_shipped_method(harness: Any) -> None:
    answer = harness("check", "simcse")
    assert (answer.code, answer.out) == (0, "simcse keeps the contract.\n")


def test_check_passes_what_is_right(harness: Any, plugin: Callable[..., Path]) -> None:
    answer = harness("check", plugin())
    assert answer.code == 0, answer.out
    assert "Error" not in answer.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('"contrastive": loss}', '"contrastive": loss.repeat(2)}', "not a scalar tensor but (2,)"),
        ('"contrastive": loss}', '"contrastive": loss.item()}', "not a scalar tensor but float"),
        (
            '"contrastive": loss}',
            '"contrastive": loss.detach()}',
            'the loss "contrastive" has no gradient',
        ),
        ('"contrastive": loss}', '"contrastive": loss / 0}', 'the loss "contrastive" is inf'),
        ('"contrastive": loss}', '"contrast": loss}', "losses() must return ['contrastive']"),
        ('"words*"', '"word"', 'the pattern "word" in `trains` matches no parameter'),
        ('"words*"', '"still"', 'the loss "contrastive" has no gradient'),
        ('"learning_rate"}', '"learning_rat"}', 'no field "learning_rat" for the learning rate'),
        (
            'streams={"contrastive"',
            'streams={"pairs"',
            "it reads the stream \"pairs\", which corpora() ['contrastive'] lacks",
        ),
        ("return vectors", "return vectors - vectors.mean(0)", "embed() depends on the batch"),
        ("return vectors", "return vectors * mask.sum(1).max()", "embed() depends on the batch"),
        ("return vectors", "return vectors + torch.rand_like(vectors)", "embed() is random"),
        ("return vectors", "return vectors / 0", "not finite"),
        ("return vectors", "return vectors.mean(0)", "embed() must return (rows, hidden)"),
        ("return vectors", "return vectors.nothing", "AttributeError"),
        (
            "        loss = ",
            "        with torch.no_grad():\n            self.still.add_(1)\n        loss = ",
            "the frozen parameter still moved",
        ),
        ("width: int = 8", "width: int = pydantic.Field(0, ge=1)", "the defaults are refused"),
        (
            "nn.Parameter(torch.zeros(1))",
            "nn.Parameter(torch.zeros(1, 2).view(3))",
            "__init__ raises RuntimeError",
        ),
        (
            "        return [\n",
            "        raise ValueError('no stage')\n        return [\n",
            "ValueError: no stage",
        ),
        (
            '        return {"contrastive": config.sentences}',
            "        raise ValueError('no data')",
            "ValueError: no data",
        ),
        ('config.sentences}', '"no-such-corpus"}', 'unknown corpus "no-such-corpus"'),
    ],
)  # fmt: skip
def test_check_finds(
    old: str, new: str, sentence: str, harness: Any, plugin: Callable[..., Path]
) -> None:
    answer = harness("check", plugin(old, new))
    assert answer.code == 1
    assert re.match(r"wrong: .*toy\.py:\d+: ", answer.out)
    faults = answer.out.splitlines()
    assert len(faults) == len(set(faults))
    assert sentence in answer.out


# After a sweep


def test_table_of_the_store(swept: Any, harness: Any) -> None:
    answer = harness("table", "--store", swept.store)
    assert answer.code == 0
    head, _, row = [line.split() for line in answer.out.splitlines()[:3]]
    assert head[:6] == ["#", "method", "setting", "encoder", "configuration", "n"]
    assert (row[:4], row[5]) == (["1", "simcse", "unsup", "tiny-bert"], "2")
    assert answer.out in swept.answer.out


def test_list_trials(swept: Any, harness: Any) -> None:
    lines = harness("list", "trials", "--store", swept.store).out.splitlines()
    keys = Store(swept.store).finished_keys()
    assert {line.split()[0] for line in lines} == {key[:10] for key in keys}
    assert sorted(line.split()[2] for line in lines) == ["final", "final", "search", "search"]


def test_plan_says_what_the_store_has(swept: Any, harness: Any) -> None:
    out = harness("plan", swept.space, "--store", swept.store).out
    search = next(line for line in out.splitlines() if "round 1" in line).split()
    assert search[search.index("5e-4") + 1 :][:2] == ["2", "2"]  # trials, stored


def test_plan_of_a_finished_sweep_has_nothing_to_run(swept: Any, harness: Any) -> None:
    assert "\n0 trials to run" in harness("plan", swept.space, "--store", swept.store).out


def test_plan_estimates_from_the_store(swept: Any, harness: Any, tmp_path: Path) -> None:
    path = tmp_path / "more.yaml"
    path.write_text(swept.space.read_text().replace("5e-4]", "5e-4, 9e-4]"))
    out = harness("plan", path, "--store", swept.store).out
    assert "Time (as the store's trials took): on this machine" in out
    assert "unknown" not in out


def test_show_prints_a_trial_whose_command_runs_again(
    swept: Any, harness: Any, tmp_path: Path
) -> None:
    row = next(row for row in Store(swept.store).read().records() if row.role == "final")
    answer = harness("show", row.key[:10], "--store", swept.store)
    assert answer.code == 0
    for line in (
        f"key: {row.key}",
        "role: final",
        "  learning_rate: ",
        "  graded-dev: ",
        "  graded: ",
        "  torch: ",
    ):
        assert f"\n{line}" in f"\n{answer.out}"
    repeated = harness(*again(answer.out), "--store", tmp_path / "again")
    assert repeated.code == 0, repeated.err
    [record] = Store(tmp_path / "again").read().records()
    assert (record.key, record.dev, record.test) == (row.key, row.dev, row.test)


def test_failed_and_damaged_files_are_named_under_the_table(
    swept: Any, harness: Any, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    store.mkdir()
    for path in swept.store.glob("*.parquet"):
        os.link(path, store / path.name)
    (store / "damaged.parquet").write_bytes(b"PAR1 no more")
    table = harness("table", "--store", store)
    assert table.code == 0
    assert "damaged.parquet" in table.out
    listed = harness("list", "trials", "--store", store)
    assert "damaged.parquet" in listed.out + listed.err


def test_trials_are_named_by_the_values_that_were_searched(swept: Any, harness: Any) -> None:
    lines = harness("list", "trials", "--store", swept.store).out.splitlines()
    labels = {line.partition("simcse ")[2] for line in lines}
    assert len(labels) == 4
    assert all("learning_rate=" in label for label in labels)
    assert "temperature=" not in "".join(labels)
    said = swept.answer.out
    assert "simcse unsup tiny-bert learning_rate=0.0001 seed 42: " in said
    assert re.search(r"\[4/4\] simcse unsup tiny-bert learning_rate=\S+ seed [01]: dev", said)


def test_the_table_names_the_chosen_values(swept: Any, harness: Any) -> None:
    out = harness("table", "--store", swept.store).out
    assert re.search(r"simcse +unsup +tiny-bert +learning_rate=0\.000[15]  +2 ", out)


def test_a_sweep_leaves_its_table_with_each_score(swept: Any) -> None:
    path = swept.store.parent / "tables" / "space.parquet"
    assert str(path) in swept.answer.out
    rows = {(row["split"], row["metric"]): row for row in pq.read_table(path).to_pylist()}
    finals = [row for row in Store(swept.store).read().records() if row.role == "final"]
    assert set(rows) == {("dev_before", "graded-dev"), ("dev", "graded-dev"), ("test", "graded")}
    found = rows["test", "graded"]
    assert {each["key"]: (each["seed"], each["value"]) for each in found["trials"]} == {
        row.key: (row.seed, row.test["graded"]) for row in finals
    }
    values = [row.test["graded"] for row in finals]
    assert found["mean"] == pytest.approx(statistics.fmean(values))
    assert found["std"] == pytest.approx(statistics.stdev(values))
    assert found["n"] == 2


def test_the_next_commands_run(swept: Any, harness: Any) -> None:
    lines = swept.answer.out.partition("Next:\n")[2].splitlines()
    commands = [words for line in lines if (words := shlex.split(line, comments=True))]
    assert [words[:2] for words in commands] == [
        ["harness", "table"],
        ["harness", "show"],
        ["harness", "list"],  # there is one row, which nothing is compared with
    ]
    purposes = [line for line in lines if line.startswith("  # ")]
    assert len(purposes) == len(commands)
    for _, *words in commands:
        answer = harness(*words)
        assert answer.code == 0, answer.err
        assert "simcse" in answer.out
    finals = [row.key for row in Store(swept.store).read().records() if row.role == "final"]
    assert commands[1][2] in {key[:10] for key in finals}
