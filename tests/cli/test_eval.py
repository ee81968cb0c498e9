"""`harness eval`: models, suites, the records in the store, and messages about missing things."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from harness.data.corpora import GRADED
from harness.data.hub import EMBEDDED
from harness.evaluation.embedder import Embedder
from harness.files import content_digest
from harness.plugin import method as methods
from harness.plugin import registry
from harness.training.loop import Trainer
from harness.training.saved_state import SavedState
from harness.trials.record import Record
from harness.trials.run import attempt
from harness.trials.store import Store
from harness.trials.trial import Trial, key
from tests.cli.conftest import sets

pytestmark = pytest.mark.slow  # most of these tests run a model over a suite

SMALL = {
    "suite": "graded", "sentences": "graded-sentences", "max_steps": 2, "batch_size": 8,
    "precision": "fp32",
}  # fmt: skip
GRADED_EVAL = ["--suite", "graded"]
TINY = EMBEDDED / "models" / "tiny-bert"
COST = (
    "wall_seconds", "evaluation_seconds", "sentences_per_second", "peak_host_memory_mib",
    "parameters_total", "threads", "started", "host", "device", "versions",
)  # fmt: skip
PLUGIN = '''\
"""A bag of words."""

from pathlib import Path

from torch import nn

from harness import plugin


class Config(plugin.MethodConfig):
    encoder: str = "tiny-bert"
    suite: str = "graded"


class Method(plugin.Method[Config]):
    config_type = Config
    longest = 64

    def __init__(self, config, kit):
        super().__init__(config, kit)
        self.words = nn.Embedding(len(kit.tokenizer), 64)

    def embed(self, batch):
        mask = batch.attention_mask[:, :, None].float()
        vectors = (self.words(batch.input_ids) * mask).sum(1) / mask.sum(1)
        if Path("FLAG").exists():
            BROKEN
        return vectors
'''
SUITE = '''\
"""How long the vectors of some sentences are."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.errors import UserError
from harness.evaluation.suites import Scores, SuiteCard, register


@dataclass
class Sentences:
    texts: list


def needed():
    if not Path("FLAG").exists():
        raise UserError("FLAG, line 3: no sentence")
    return Sentences(["a red bird", "the cat sees the dog", "the old farmer", "a red bird"])


def short():
    return Sentences(["the cat", "a dog runs"])


@register("mine", {"short": short, "long": needed}, lambda: [])
def mine(task, data, vectors):
    norm = float(np.linalg.norm(vectors, axis=1).mean())
    return Scores({task: norm}, {f"{task}/rows": float(len(vectors))})
'''


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def flag(tmp_path: Path) -> Path:
    """The file that the plugin and the suite look for."""
    return tmp_path / "flag.txt"


@pytest.fixture
def plugin(tmp_path: Path, flag: Path) -> Iterator[Callable[..., Path]]:
    """plugin(broken): a method that does `broken` while the flag is there."""

    def write(broken: str = "pass") -> Path:
        path = tmp_path / "toy.py"
        path.write_text(
            PLUGIN.replace("FLAG", str(flag)).replace("BROKEN", broken), encoding="utf-8"
        )
        return path

    yield write
    registry.load.cache_clear()


@pytest.fixture
def my_suite(tmp_path: Path, flag: Path) -> Callable[..., Path]:
    """my_suite(old, new): the suite above, with one text replaced."""

    def write(old: str = "", new: str = "", name: str = "my_suite.py") -> Path:
        assert old in SUITE
        path = tmp_path / name
        path.write_text(
            (SUITE.replace(old, new) if old else SUITE).replace("FLAG", str(flag)), encoding="utf-8"
        )
        return path

    return write


def rows(store: Path) -> list[Record]:
    return Store(store).read().records()


def evaluation(store: Path, suite: str = "graded") -> Record:
    """The single evaluation by this suite."""
    [row] = [row for row in rows(store) if row.role == "evaluation" and row.suite == suite]
    return row


def check_sentence(answer: Any, *parts: object, code: int = 2) -> None:
    """Check the exit code, and that one line on stderr, behind the steps, has all the parts."""
    assert answer.code == code, answer.out + answer.err
    *steps, last = answer.err.strip().split("\n")
    assert last.startswith("Error: ")
    assert not any(step.startswith(("Error", "Traceback")) for step in steps), answer.err
    for part in parts:
        assert str(part) in last, answer.err


def check_scores(row: Record, expected: Record) -> None:
    """Check that two rows have the same scores, details and uncertainties."""
    for column in ("test", "details"):
        found, wanted = getattr(row, column), getattr(expected, column)
        shared = found.keys() & wanted.keys()
        assert shared, column
        assert shared == wanted.keys()
        for name in shared:
            assert found[name] == pytest.approx(wanted[name], abs=1e-6), name
    for name, spread in expected.uncertainty.items():
        assert vars(row.uncertainty[name]) == pytest.approx(vars(spread), abs=1e-6)
    for name, score in expected.dev.items():
        assert row.dev[name] == pytest.approx(score, abs=1e-6)


def no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Trainer) -> None:
        raise AssertionError("it trains")

    monkeypatch.setattr(Trainer, "run", refuse)


# Any encoder


def test_an_encoder_offline_has_the_scores_of_the_method_pooling(
    process: Any, harness: Any, store: Path
) -> None:
    answer = process("eval", "tiny-bert", *GRADED_EVAL, "--pooling", "cls", "--store", store)
    assert answer.code == 0, answer.err
    assert "tiny-bert (cls pooling)" in answer.out
    run = ["run", "pooling", "--encoder", "tiny-bert", *sets(suite="graded", pooling="cls")]
    assert harness(*run, "--store", store).code == 0
    [trial] = [row for row in rows(store) if row.role == "final"]
    row = evaluation(store)
    check_scores(row, trial)
    assert (row.status, row.reason, row.evaluates) == ("finished", None, trial.key)
    assert row.key != trial.key
    values = row.method, row.encoder, row.configuration["pooling"]
    assert values == ("pooling", "tiny-bert", "cls")
    assert set(row.uncertainty) == {"graded", "graded-dev"}
    assert all(getattr(row, name) for name in COST), vars(row)
    assert (row.parameters_trainable, row.parameters_added) == (0, 0)
    assert row.parameters_total == trial.parameters_total
    assert row.wall_seconds > row.evaluation_seconds


def test_mean_pooling_is_what_a_plain_encoder_gets(harness: Any, store: Path) -> None:
    """Mean pooling is also the default of the library sentence-transformers."""
    assert harness("eval", "tiny-bert", *GRADED_EVAL, "--store", store).code == 0
    assert evaluation(store).configuration["pooling"] == "mean"
    run = ["run", "pooling", "--encoder", "tiny-bert", *sets(suite="graded", pooling="mean")]
    harness(*run, "--store", store)
    [trial] = [row for row in rows(store) if row.role == "final"]
    check_scores(evaluation(store), trial)


def test_a_folder_is_the_model_that_it_holds(harness: Any, store: Path) -> None:
    for name in ("tiny-bert", TINY):
        assert harness("eval", name, *GRADED_EVAL, "--store", store).code == 0
    one, two = rows(store)
    check_scores(one, two)


# Trials of the store


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a search trial of SimCSE and a final one."""
    store = Store(tmp_path_factory.mktemp("trained") / "store")
    values = {**SMALL, "encoder": "tiny-bert", "learning_rate": 1e-3}
    for role, seed in (("search", 42), ("final", 1)):
        trial = Trial("simcse", values, seed, role)
        store.write(attempt(trial, lambda _: None, store.weights(key(trial))))
    assert [row.status for row in store.read().records()] == ["finished"] * 2
    return store.folder


@pytest.fixture
def trials(trained: Path, store: Path) -> dict[str, Record]:
    """Role -> row, in a store that only this test uses."""
    shutil.copytree(trained, store)
    shutil.copytree(Store(trained).weights("KEY").parent, Store(store).weights("KEY").parent)
    return {row.role: row for row in rows(store)}


def test_a_final_trial_has_its_own_scores_from_its_weights(
    harness: Any, trials: dict[str, Record], store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_training(monkeypatch)
    trial = trials["final"]
    answer = harness("eval", trial.key[:8], *GRADED_EVAL, "--store", store)
    assert answer.code == 0, answer.err
    row = evaluation(store)
    check_scores(row, trial)
    assert row.evaluates == trial.key
    names = "seed", "steps", "parameters_trainable", "precision", "configuration", "source_digest"
    for name in names:
        assert getattr(row, name) == getattr(trial, name), name


def test_without_its_weights_a_trial_is_trained_again(
    harness: Any, trials: dict[str, Record], store: Path
) -> None:
    trial = trials["final"]
    weights = Store(store).weights(trial.key)
    weights.unlink()
    assert harness("eval", trial.key, *GRADED_EVAL, "--store", store).code == 0
    check_scores(evaluation(store), trial)
    assert weights.is_file()


def test_a_search_trial_is_trained_again_and_gets_test_scores(
    harness: Any, trials: dict[str, Record], store: Path, tmp_path: Path
) -> None:
    trial = trials["search"]
    assert trial.test == {}
    assert harness("eval", trial.key, *GRADED_EVAL, "--store", store).code == 0
    values = {name: value for name, value in trial.configuration.items() if value is not None}
    harness("run", "simcse", *sets(**values), "--seed", trial.seed, "--store", tmp_path / "other")
    [final] = rows(tmp_path / "other")
    row = evaluation(store)
    assert row.evaluates == trial.key != final.key
    check_scores(row, final)
    assert row.dev["graded-dev"] == pytest.approx(trial.dev["graded-dev"], abs=1e-6)


@pytest.mark.parametrize(
    "method",
    ["dcpcse", *(pytest.param(name, marks=pytest.mark.slow) for name in ("flow", "promptbert"))],
)
def test_weights_are_all_that_training_changed(
    method: str, harness: Any, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Methods with prefixes and heads, a flow on a frozen encoder, and other vectors on dev."""
    fields = registry.load(method).config_type.model_fields
    values = {**SMALL, "max_steps": 3, "corpus": "graded-sentences", "learning_rate": 0.01}
    values |= {"vector_dropout": False}
    settings = sets(**{name: value for name, value in values.items() if name in fields})
    answer = harness("run", method, "--encoder", "tiny-bert", *settings, "--store", store)
    assert answer.code == 0, answer.err
    [trial] = rows(store)
    assert trial.steps > 0
    no_training(monkeypatch)
    answer = harness("eval", trial.key, *GRADED_EVAL, "--store", store)
    assert answer.code == 0, answer.err
    check_scores(evaluation(store), trial)


@pytest.mark.parametrize("damage", ["a bit", "another trial's"])
def test_weights_that_do_not_match_their_record_are_trained_again(
    damage: str,
    harness: Any,
    trials: dict[str, Record],
    store: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    trial = trials["final"]
    weights = Store(store).weights(trial.key)
    content = weights.read_bytes()
    if damage == "another trial's":
        values = {**trial.configuration, "learning_rate": 0.01}
        attempt(Trial("simcse", values, trial.seed), lambda _: None, weights)
    else:
        weights.write_bytes(content[:-3] + bytes([content[-3] ^ 4]) + content[-2:])
    assert harness("eval", trial.key, *GRADED_EVAL, "--store", store).code == 0
    [line] = caplog.messages
    assert str(weights) in line
    assert "is trained again" in line
    check_scores(evaluation(store), trial)
    assert weights.read_bytes() == content


@pytest.mark.parametrize("damage", ["cut", "a bit"])
def test_damaged_weights_that_no_record_names_are_trained_again(
    damage: str,
    harness: Any,
    trials: dict[str, Record],
    store: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The weights of a search trial, which an evaluation has trained."""
    trial = trials["search"]
    weights = Store(store).weights(trial.key)
    command = ["eval", trial.key, "--suite", "graded", "--store", store]
    assert harness(*command).code == 0
    assert trial.weights_digest is None
    content, before = weights.read_bytes(), evaluation(store)
    damaged = bytearray(content)
    damaged[-3] ^= 4
    weights.write_bytes(damaged[: 1000 if damage == "cut" else None])
    (store / f"{before.key}.parquet").unlink()
    assert harness(*command).code == 0
    [line] = caplog.messages
    assert str(weights) in line
    assert "is trained again" in line
    check_scores(evaluation(store), before)
    assert weights.read_bytes() == content


def test_other_weights_than_those_of_the_record_are_not_kept(
    harness: Any, trials: dict[str, Record], store: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As on a machine that trains other weights; a score counts for the weights it measured."""
    trial = trials["final"]
    assert harness("eval", trial.key, *GRADED_EVAL, "--store", store).code == 0
    before = evaluation(store)
    (store / f"{trial.key}.parquet").unlink()
    Store(store).write(replace(trial, weights_digest="0" * 64))
    answer = harness("eval", trial.key, *GRADED_EVAL, "--store", store)
    assert answer.code == 0
    assert "graded (embedding" in answer.out  # and not from the store
    assert evaluation(store) == before
    refused, differ = caplog.messages
    assert "is trained again" in refused
    assert trial.label in differ
    assert not Store(store).weights(trial.key).exists()


def test_a_trial_whose_plugin_has_no_name_here(
    harness: Any, plugin: Callable[..., Path], store: Path
) -> None:
    path = plugin()
    assert harness("run", path, "--store", store).code == 0
    [trial] = rows(store)
    command = ["eval", trial.key, *GRADED_EVAL, "--store", store]
    check_sentence(harness(*command), "there is no method toy here", "--method PATH")
    answer = harness(*command, "--method", path)
    assert answer.code == 0, answer.err
    check_scores(evaluation(store), trial)


def test_a_trial_whose_plugin_has_changed_is_refused(
    harness: Any, plugin: Callable[..., Path], store: Path
) -> None:
    path = plugin()
    harness("run", path, "--store", store)
    [trial] = rows(store)
    path.write_text(path.read_text() + "\n# a remark\n")
    registry.load.cache_clear()
    answer = harness("eval", trial.key, *GRADED_EVAL, "--method", path, "--store", store)
    check_sentence(answer, trial.key[:10], "have changed since it ran", "harness show")
    assert len(rows(store)) == 1


def test_a_trial_that_failed_is_refused(
    harness: Any, plugin: Callable[..., Path], flag: Path, store: Path
) -> None:
    flag.touch()
    path = plugin("raise ValueError('odd')")
    assert harness("run", path, "--store", store).code == 1
    [trial] = rows(store)
    answer = harness("eval", trial.key, *GRADED_EVAL, "--method", path, "--store", store)
    check_sentence(answer, "has not finished", "ValueError: odd")


def test_pooling_is_not_for_trials(harness: Any, trials: dict[str, Record], store: Path) -> None:
    answer = harness(
        "eval", trials["final"].key, *GRADED_EVAL, "--pooling", "cls", "--store", store
    )
    check_sentence(answer, "--pooling", trials["final"].key[:10])


# Nothing is measured twice


def no_embedding(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("it embeds")

    monkeypatch.setattr(Embedder, "__call__", refuse)


def test_what_is_stored_is_not_measured_again(
    harness: Any,
    my_suite: Callable[..., Path],
    flag: Path,
    store: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flag.touch()
    command = ["eval", "tiny-bert", "--store", store, "--suite"]
    harness(*command, "graded")
    [before] = store.glob("*.parquet")
    written = before.stat().st_mtime_ns
    answer = harness(*command, f"{my_suite()},graded")
    assert answer.code == 0, answer.err
    assert "graded (in the store)" in answer.out
    assert before.stat().st_mtime_ns == written
    assert evaluation(store, "mine").status == "finished"
    no_embedding(monkeypatch)
    answer = harness(*command, f"graded,{my_suite()}")
    assert answer.code == 0
    assert "mine (in the store)" in answer.out
    assert len(rows(store)) == 2


def test_what_is_missing_is_tried_again(
    harness: Any, my_suite: Callable[..., Path], flag: Path, store: Path
) -> None:
    command = ["eval", "tiny-bert", "--suite", my_suite(), "--store", store]
    answer = harness(*command)
    assert answer.code == 1
    assert f"missing in mine: long: {flag}, line 3: no sentence" in answer.out
    first = evaluation(store, "mine")
    assert (first.status, set(first.test)) == ("partial", {"short"})
    assert first.reason == f"long: {flag}, line 3: no sentence"
    flag.touch()
    assert harness(*command).code == 0
    again = evaluation(store, "mine")
    assert (again.key, again.status, again.reason) == (first.key, "finished", None)
    assert set(again.test) == {"short", "long"}
    assert again.details["long/rows"] == 4, "a row for every text, copies too"


def test_what_failed_is_tried_again(
    harness: Any, plugin: Callable[..., Path], flag: Path, store: Path
) -> None:
    path = plugin("return vectors * float('nan')")
    harness("run", path, "--store", store)
    [trial] = rows(store)
    flag.touch()
    command = ["eval", trial.key, *GRADED_EVAL, "--method", path, "--store", store]
    assert harness(*command).code == 1
    assert evaluation(store).status == "failed"
    flag.unlink()
    assert harness(*command).code == 0
    check_scores(evaluation(store), trial)


def test_an_interruption_keeps_the_suites_before_it(
    harness: Any, my_suite: Callable[..., Path], store: Path
) -> None:
    path = my_suite("    return Scores(", "    raise KeyboardInterrupt\n    return Scores(")
    answer = harness("eval", "tiny-bert", "--suite", f"graded,{path}", "--store", store)
    assert answer.code == 130
    assert "the same command goes on from there" in answer.err
    [row] = rows(store)
    assert (row.suite, row.status) == ("graded", "finished")


@pytest.mark.slow
def test_a_kill_keeps_the_suites_before_it(
    process: Any, my_suite: Callable[..., Path], store: Path
) -> None:
    path = my_suite(
        "    return Scores(", "    os.kill(os.getpid(), signal.SIGKILL)\n    return Scores("
    )
    assert process("eval", "tiny-bert", "--suite", f"graded,{path}", "--store", store).code == -9
    [row] = rows(store)
    assert (row.suite, row.status) == ("graded", "finished")
    assert {path.name for path in store.iterdir()} == {f"{row.key}.parquet"}


# A user's suite


def test_a_suite_of_a_file(
    harness: Any, my_suite: Callable[..., Path], flag: Path, store: Path
) -> None:
    flag.touch()
    answer = harness("eval", "tiny-bert", "--suite", f"{my_suite()},graded", "--store", store)
    assert answer.code == 0, answer.err
    row = evaluation(store, "mine")
    assert set(row.test) == {"short", "long"}
    assert row.details == {"short/rows": 2, "long/rows": 4}
    assert row.evaluates == evaluation(store).evaluates, "one model, whatever is measured"
    assert row.test["short"] > 0


def test_an_edited_suite_is_another_one(
    harness: Any, my_suite: Callable[..., Path], flag: Path, store: Path
) -> None:
    flag.touch()
    command = ["eval", "tiny-bert", "--store", store, "--suite", my_suite()]
    harness(*command)
    one = evaluation(store, "mine")
    my_suite("float(np.linalg.norm(vectors, axis=1).mean())", "2.5")
    assert harness(*command).code == 0
    both = {row.key: row for row in rows(store)}
    assert len(both) == 2
    del both[one.key]
    [other] = both.values()
    assert other.test == {"short": 2.5, "long": 2.5}
    assert other.evaluates == one.evaluates


def test_a_trial_whose_own_suite_is_edited_runs_again(
    harness: Any, my_suite: Callable[..., Path], flag: Path, store: Path
) -> None:
    flag.touch()
    dev = (
        '@register("mine", {"short"',
        '@register(SuiteCard("mine", dev_tasks=("short",)), data={"short"',
    )
    path = my_suite(*dev)
    path.write_text(path.read_text().replace("needed}, lambda: [])", "needed}, files=lambda: [])"))
    command = ["run", "pooling", "--encoder", "tiny-bert", *sets(suite=path), "--store", store]
    answer = harness(*command)
    assert answer.code == 0, answer.err
    assert set(rows(store)[0].test) == {"long"}
    assert harness(*command).out.startswith("Already in the store")
    path.write_text(path.read_text() + "\n# a remark\n")
    assert not harness(*command).out.startswith("Already in the store")
    assert len(rows(store)) == 2


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        (
            '@register("mine"',
            '_ = (lambda *_: lambda f: f)("mine"',
            ["it holds 0", "@register"],
        ),
        (
            "\n\n@register",
            "\n\n@register('yours', {}, list)\ndef yours(*_): ...\n\n\n@register",
            ["it holds 2"],
        ),
    ],
    ids=["none", "two"],
)
def test_a_file_that_is_no_suite(
    old: str, new: str, parts: list[str], harness: Any, my_suite: Callable[..., Path], store: Path
) -> None:
    path = my_suite(old, new)
    if "lambda f: f" in new:
        path.write_text(path.read_text().replace("_ = (lambda", "@(lambda"))
    check_sentence(
        harness("eval", "tiny-bert", "--suite", f"graded,{path}", "--store", store), path, *parts
    )
    assert not store.exists()


def test_two_suites_of_one_name(harness: Any, my_suite: Callable[..., Path], store: Path) -> None:
    both = f"{my_suite()},{my_suite(name='other.py')}"
    check_sentence(harness("eval", "tiny-bert", "--suite", both, "--store", store), "two", '"mine"')


def test_an_unknown_suite(harness: Any, store: Path) -> None:
    answer = harness("eval", "tiny-bert", "--suite", "graded,retrival", "--store", store)
    check_sentence(answer, 'unknown suite "retrival"', 'did you mean "retrieval"?')
    assert not store.exists()


def test_a_suite_that_raises_costs_its_task_alone(
    harness: Any, my_suite: Callable[..., Path], flag: Path, store: Path
) -> None:
    flag.touch()
    path = my_suite("    return Scores(", "    assert task != 'long', 'odd'\n    return Scores(")
    answer = harness("eval", "tiny-bert", "--suite", f"{path},graded", "--store", store)
    assert (answer.code, answer.err) == (1, "")
    row = evaluation(store, "mine")
    assert (row.status, row.reason, set(row.test)) == (
        "partial",
        "long: AssertionError: odd",
        {"short"},
    )
    assert evaluation(store).status == "finished"


# Bad data of one task: the other tasks are scored


STSB, SICK, YEAR = (
    "STS/STSBenchmark/sts-test.csv",
    "SICK/SICK_test_annotated.txt",
    "STS/STS14-en-test/STS.{}.OnWN.txt",
)


def second_line(change: Callable[[list[str]], list[str]]) -> Callable[[str], str]:
    """The text with the fields of its second line changed."""

    def changed(text: str) -> str:
        lines = text.split("\n")
        lines[1] = "\t".join(change(lines[1].split("\t")))
        return "\n".join(lines)

    return changed


@pytest.mark.parametrize(
    ("member", "change", "task", "part"),
    [
        (STSB, None, "stsb", "has no member"),
        (
            YEAR.format("input"),
            second_line(lambda fields: fields[:1]),
            "sts14",
            "line 2: 2 tab-separated fields",
        ),
        (
            SICK,
            second_line(lambda fields: [*fields[:3], "high"]),
            "sickr",
            'line 2: the gold score "high"',
        ),
    ],
    ids=["member", "fields of a year", "score"],
)
def test_a_damaged_file_is_named_and_the_other_tasks_are_scored(
    member: str,
    change: Any,
    task: str,
    part: str,
    harness: Any,
    senteval: Callable[..., Path],
    store: Path,
) -> None:
    archive = senteval({member: change})
    answer = harness("eval", "tiny-bert", "--suite", "sts,graded", "--store", store)
    assert (answer.code, answer.err) == (1, "")
    row = evaluation(store, "sts")
    assert row.status == "partial"
    assert str(row.reason).startswith(f"{task}: {archive}")
    assert member in str(row.reason)
    assert part in str(row.reason)
    assert f"missing in sts: {row.reason}" in answer.out
    assert set(row.test) == {"sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr"} - {task}
    assert set(row.dev) == {"stsb-dev", "sickr-dev"}
    assert all(np.isfinite([*row.test.values(), *row.details.values()]))
    assert not [name for name in row.details if name.startswith(f"{task}/")]
    assert evaluation(store).status == "finished"


def test_a_whole_archive_has_an_average(
    harness: Any, senteval: Callable[..., Path], store: Path
) -> None:
    senteval()
    answer = harness("eval", "tiny-bert", "--suite", "sts,retrieval,geometry", "--store", store)
    assert answer.code == 0, answer.out + answer.err
    row = evaluation(store, "sts")
    tests = {name: score for name, score in row.test.items() if name != "avg"}
    assert row.test["avg"] == pytest.approx(np.mean([round(score, 2) for score in tests.values()]))
    assert set(row.uncertainty) == {*row.test, "stsb-dev", "sickr-dev"}
    recalls = {f"recall@{count}" for count in (1, 3, 5, 10)}
    assert set(evaluation(store, "retrieval").test) == recalls
    assert -8 <= evaluation(store, "geometry").test["uniformity"] <= 0


def test_a_cut_archive(harness: Any, senteval: Callable[..., Path], store: Path) -> None:
    """The members before the damaged one have scores."""
    archive = senteval()
    content = archive.read_bytes()
    archive.write_bytes(content[: content.index(b"SICK/SICK_test_annotated.txt") + 700])
    answer = harness("eval", "tiny-bert", "--suite", "sts", "--store", store)
    assert (answer.code, answer.err) == (1, "")
    row = evaluation(store, "sts")
    assert row.status == "partial"
    assert {"sts12", "stsb"} <= set(row.test)
    assert not {"sickr", "avg"} & set(row.test)
    for member in (SICK, "SICK/SICK_trial.txt"):
        assert f"{archive}, {member}: cannot be read" in str(row.reason)


def test_a_broken_archive(harness: Any, senteval: Callable[..., Path], store: Path) -> None:
    archive = senteval()
    archive.write_bytes(b"this is no archive")
    answer = harness(
        "eval", "tiny-bert", "--suite", "transfer-senteval,graded,retrieval", "--store", store
    )
    assert (answer.code, answer.err) == (1, "")
    for name in ("transfer-senteval", "retrieval"):
        row = evaluation(store, name)
        assert (row.status, row.test) == ("failed", {})
        assert f"{archive}" in str(row.reason)
        assert "cannot be read" in str(row.reason)
    assert evaluation(store).status == "finished"


def test_no_archive_at_all(harness: Any, store: Path) -> None:
    """A suite without data is a mistake when it is alone.

    Beside a suite that has its data, the other suite is measured, whichever comes first.
    """
    parts = ("senteval.tar", "was not found", "set HARNESS_HUB")
    check_sentence(
        harness("eval", "tiny-bert", "--suite", "retrieval,sts", "--store", store), *parts
    )
    assert not store.exists()
    answer = harness("eval", "tiny-bert", "--suite", "sts,graded", "--store", store)
    assert (answer.code, answer.err) == (1, "")
    assert evaluation(store).status == "finished"
    reason = evaluation(store, "sts").reason
    assert str(reason).startswith("sts12, sts13,")
    assert str(reason).count("senteval.tar") == 2, "one sentence for all tasks"


# Bad models


@pytest.mark.usefixtures("trials")
def test_a_key_that_no_trial_has(harness: Any, store: Path) -> None:
    check_sentence(
        harness("eval", "0123abcd", *GRADED_EVAL, "--store", store), '"0123abcd"', "was not found"
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the embedded encoder, which a test can damage."""
    shutil.copytree(TINY, tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("left", ["nothing", "its settings", "no JSON", "other JSON"])
def test_a_model_without_its_tokenizer(left: str, harness: Any, copy: Path, store: Path) -> None:
    """Without the vocabulary, transformers makes an empty tokenizer, and there is no score.

    All words are then unknown, so all sentences have the same vector.
    """
    for name in ("tokenizer.json", "vocab.txt", "vocab.json"):
        (copy / name).unlink(missing_ok=True)
    if left == "nothing":
        (copy / "tokenizer_config.json").unlink(missing_ok=True)
    elif left != "its settings":
        (copy / "tokenizer.json").write_text("{" if left == "no JSON" else "{}")
    check_sentence(harness("eval", copy, *GRADED_EVAL, "--store", store), copy, "tokenizer")
    assert not store.exists()


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ("return vectors * float('nan')", "graded-dev, graded: the embeddings are not finite"),
        ("return vectors * 0 + 1", "the embedding is constant"),
        ("return vectors[:, : batch.input_ids.shape[1]]", "embed() gave the shape"),
        ("return vectors[:-1]", "embed() gave the shape"),
        ("return vectors[:, 0]", "embed() gave the shape"),
        ("raise ValueError('odd')", "graded-dev, graded: ValueError: odd"),
    ],
    ids=["nan", "constant", "width", "rows", "dimensions", "raises"],
)
def test_a_broken_embedding_is_never_a_score(
    broken: str, reason: str, harness: Any, plugin: Callable[..., Path], flag: Path, store: Path
) -> None:
    path = plugin(broken)
    assert harness("run", path, "--store", store).code == 0
    [trial] = rows(store)
    flag.touch()
    answer = harness("eval", trial.key, *GRADED_EVAL, "--method", path, "--store", store)
    assert (answer.code, answer.err) == (1, "")
    row = evaluation(store)
    assert (row.status, row.dev, row.test, row.details) == ("failed", {}, {}, {})
    assert reason in str(row.reason)
    assert row.reason in answer.out


@pytest.mark.slow
def test_process_refuses_in_one_sentence(process: Any, copy: Path, store: Path) -> None:
    (copy / "tokenizer.json").unlink()
    for name, part in (("tiny-brt", "did you mean"), (copy, "tokenizer")):
        answer = process("eval", name, *GRADED_EVAL, "--store", store)
        check_sentence(answer, part)
        assert "Traceback" not in answer.out
    assert not store.exists()


# Sentences are tokenised once and embedded once


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], tuple[list[int], list[str]]]:
    """counted(method): the sizes of all batches that are embedded, and every tokenised text."""

    def count(name: str) -> tuple[list[int], list[str]]:
        method, sizes, texts = registry.load(name).method, [], []
        embed, pieces = method.embed, methods.piece_ids

        def watched(self: Any, batch: Any) -> Any:
            sizes.append(len(batch.input_ids))
            return embed(self, batch)

        monkeypatch.setattr(method, "embed", watched)

        def tokenised(tokenizer: Any, found: list[str]) -> Any:
            texts.extend(found)
            return pieces(tokenizer, found)

        monkeypatch.setattr(methods, "piece_ids", tokenised)
        return sizes, texts

    return count


def graded_texts() -> dict[str, set[str]]:
    """Split -> its distinct sentences."""
    lines = {
        split: (EMBEDDED / "datasets" / GRADED / f"{split}.tsv")
        .read_text(encoding="utf-8")
        .splitlines()
        for split in ("dev", "test")
    }
    return {
        split: {text for row in rows for text in row.split("\t")[1:]}
        for split, rows in lines.items()
    }


def test_all_suites_of_a_call_are_embedded_in_one_pass(
    harness: Any, senteval: Callable[..., Path], store: Path, counted: Any
) -> None:
    senteval()
    sizes, texts = counted("pooling")
    assert (
        harness(
            "eval", "tiny-bert", "--suite", "sts,retrieval,geometry,graded", "--store", store
        ).code
        == 0
    )
    distinct = set().union(*graded_texts().values())
    assert set(texts) == distinct, "the archive's sentences are the graded ones"
    assert len(texts) == len(distinct)
    assert sum(sizes) == len({text.lower() for text in distinct})
    assert len({row.evaluation_seconds for row in rows(store)}) == 1


def test_dev_sentences_are_embedded_again_where_their_vectors_differ(
    harness: Any, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dev score of a trial of ConSERT is that of `embed_dev`.

    ConSERT selects on other vectors than it tests.
    """
    answer = harness("run", "consert", "--encoder", "tiny-bert", *sets(**SMALL), "--store", store)
    assert answer.code == 0, answer.err
    [trial] = rows(store)
    passes: list[tuple[int, bool]] = []
    embed = Embedder.__call__

    def watched(self: Embedder, texts: list[str], *, dev: bool = False) -> Any:
        passes.append((len(texts), dev))
        return embed(self, texts, dev=dev)

    monkeypatch.setattr(Embedder, "__call__", watched)
    assert harness("eval", trial.key, *GRADED_EVAL, "--store", store).code == 0
    sizes = {split: len(texts) for split, texts in graded_texts().items()}
    assert sorted(passes) == sorted([(sizes["test"], False), (sizes["dev"], True)])
    check_scores(evaluation(store), trial)


# Kept embeddings


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the embeddings of this test are kept."""
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "embeddings"


def test_kept_embeddings_serve_later_suites(
    harness: Any,
    senteval: Callable[..., Path],
    store: Path,
    kept: Path,
    counted: Any,
    tmp_path: Path,
) -> None:
    """The second call embeds only sentences that the first one has not embedded.

    Its scores are those of a call that keeps nothing.
    """
    senteval()
    command = ["eval", "tiny-bert", "--suite"]
    sizes, _ = counted("pooling")
    answer = harness(*command, "retrieval", "--keep-embeddings", "--store", store)
    assert answer.code == 0, answer.err
    [folder] = kept.glob("*/*")
    assert str(folder) in answer.out
    assert {path.suffix for path in (folder / "test").iterdir()} == {".npy", ".parquet", ".json"}
    first = sum(sizes)
    sizes.clear()
    assert harness(*command, "graded,geometry", "--store", store).code == 0
    distinct = set().union(*graded_texts().values())
    assert first + sum(sizes) == len({text.lower() for text in distinct})
    harness(*command, "graded,geometry", "--store", tmp_path / "other", "--pooling", "mean")
    for name in ("graded", "geometry"):
        check_scores(evaluation(store, name), evaluation(tmp_path / "other", name))
    [array] = (folder / "test").glob("*.npy")
    vectors = np.load(array, mmap_mode="r")
    texts = pq.read_table(array.with_suffix(".parquet"))["text"].to_pylist()
    assert isinstance(vectors, np.memmap)
    assert vectors.dtype == np.float32
    assert len(vectors) == len(texts) == len(set(texts)) == first


@pytest.mark.usefixtures("kept")
def test_all_that_is_kept_needs_no_model_pass(
    harness: Any, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness("eval", "tiny-bert", *GRADED_EVAL, "--keep-embeddings", "--store", store)
    no_embedding(monkeypatch)
    answer = harness("eval", "tiny-bert", *GRADED_EVAL, "--store", tmp_path / "other")
    assert answer.code == 0, answer.err
    assert "embeddings were kept" in answer.out
    check_scores(evaluation(tmp_path / "other"), evaluation(store))


def test_kept_vectors_are_those_of_the_same_weights(
    harness: Any, trials: dict[str, Record], store: Path, kept: Path, tmp_path: Path
) -> None:
    """Two stores may have other weights of one trial, such as those of another kind of machine."""
    trial = trials["final"]
    command = ["eval", trial.key, *GRADED_EVAL, "--store"]
    assert harness(*command, store, "--keep-embeddings").code == 0
    other = Store(tmp_path / "other")
    state = SavedState.read(Store(store).weights(trial.key))
    for value in state.weights.values():
        if value.is_floating_point():
            value.mul_(-1.5)
    state.write(other.weights(trial.key))
    other.write(replace(trial, weights_digest=content_digest(other.weights(trial.key))))
    assert harness(*command, other.folder).code == 0
    cold = Store(tmp_path / "cold")
    shutil.copytree(other.folder, cold.folder)
    shutil.copytree(other.weights_folder, cold.weights_folder)
    (cold.folder / f"{evaluation(other.folder).key}.parquet").unlink()
    shutil.rmtree(kept)
    assert harness(*command, cold.folder).code == 0
    check_scores(evaluation(other.folder), evaluation(cold.folder))
    assert evaluation(other.folder).test != evaluation(store).test


def test_nothing_is_kept_unless_asked(harness: Any, store: Path, kept: Path) -> None:
    harness("eval", "tiny-bert", *GRADED_EVAL, "--store", store)
    assert not kept.exists()


def test_dev_vectors_are_kept_apart_where_they_differ(
    harness: Any, plugin: Callable[..., Path], store: Path, kept: Path
) -> None:
    path = plugin()
    other = "\n    def embed_dev(self, batch):\n        return self.embed(batch) ** 3\n"
    path.write_text(path.read_text() + other)
    harness("run", path, "--store", store)
    [trial] = rows(store)
    command = ["eval", trial.key, *GRADED_EVAL, "--method", path, "--keep-embeddings"]
    command += ["--store", store]
    assert harness(*command).code == 0
    assert sorted(folder.name for folder in (kept / trial.key).glob("*/*")) == ["dev", "test"]
    (store / f"{evaluation(store).key}.parquet").unlink()
    answer = harness(*command)
    assert "embeddings were kept" in answer.out
    check_scores(evaluation(store), trial)


@pytest.mark.parametrize("damage", ["no vectors", "a bit"])
def test_damaged_kept_embeddings_are_named_and_made_again(
    damage: str,
    harness: Any,
    store: Path,
    kept: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    command = ["eval", "tiny-bert", *GRADED_EVAL, "--keep-embeddings", "--store"]
    harness(*command, store)
    [array] = kept.rglob("*.npy")
    content = bytearray(array.read_bytes())
    if damage == "no vectors":
        array.unlink()
    else:
        content[-3] ^= 1
        array.write_bytes(content)
    assert harness(*command, tmp_path / "other").code == 0
    [line] = caplog.messages
    assert str(array) in line
    check_scores(evaluation(tmp_path / "other"), evaluation(store))
    assert "embeddings were kept" in harness(*command, tmp_path / "third").out


def test_a_half_written_pair_is_ignored(
    harness: Any, store: Path, kept: Path, tmp_path: Path
) -> None:
    harness("eval", "tiny-bert", *GRADED_EVAL, "--keep-embeddings", "--store", store)
    [array] = kept.rglob("*.npy")
    array.with_suffix(".json").unlink()
    array.write_bytes(array.read_bytes()[:5000])
    answer = harness("eval", "tiny-bert", *GRADED_EVAL, "--store", tmp_path / "other")
    assert answer.code == 0, answer.err
    check_scores(evaluation(tmp_path / "other"), evaluation(store))


def test_embeddings_that_cannot_be_kept_cost_no_score(
    harness: Any, store: Path, kept: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept.parent.mkdir()
    kept.touch()
    answer = harness("eval", "tiny-bert", *GRADED_EVAL, "--keep-embeddings", "--store", store)
    assert answer.code == 0, answer.err
    assert evaluation(store).status == "finished"
    assert "are not kept" in caplog.text


# Trials have the same columns as evaluations


def test_a_run_stores_uncertainty_and_details(harness: Any, store: Path) -> None:
    run = ["run", "pooling", "--encoder", "tiny-bert", "--set", "suite=graded", "--store", store]
    assert harness(*run).code == 0
    [row] = rows(store)
    spread, score = row.uncertainty["graded"], row.test["graded"]
    assert spread.low < score < spread.high
    assert 0 < spread.standard_error < 10
    assert row.details["graded/all/spearman"] == pytest.approx(score)
    assert "graded/all/pearson" in row.details


def test_a_damaged_test_file_stops_a_trial_before_the_training(
    harness: Any,
    senteval: Callable[..., Path],
    store: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    archive = senteval({SICK: None})
    no_training(monkeypatch)
    settings = sets(sentences="graded-sentences", max_steps=2, batch_size=8)
    answer = harness("run", "simcse", "--encoder", "tiny-bert", *settings, "--store", store)
    check_sentence(answer, f"{archive} has no member {SICK}")
    assert not store.exists()
